// SPDX-License-Identifier: MIT
#include "server/sessions/stored_session.h"

#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/sessions/session_record.h"

namespace mnemon {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Time = std::chrono::system_clock::time_point;

absl::Status DamagedSession(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss,
                   StrCat("the stored record of the session: ", what),
                   {.reason = "RECORD_DAMAGED"});
}

int64_t ToMillis(Time time) {
  return std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count();
}
Time FromMillis(int64_t ms) { return Time(milliseconds(ms)); }

// Reads members of an object; the first that is not as it should be stays in status().
class SessionReader {
 public:
  explicit SessionReader(const json& object) : object_(object) {
    if (!object.is_object()) status_ = DamagedSession("not a JSON object");
  }

  template <class T>
  void Read(const char* name, T& value) {
    const json* const found = Find(name);
    if (found == nullptr) return;
    if constexpr (std::is_same_v<T, bool>) {
      if (!found->is_boolean()) return Fail(name, "a boolean");
      value = found->get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      if (!found->is_number_integer() ||
          (!found->is_number_unsigned() && found->get<int64_t>() < 0)) {
        return Fail(name, "a whole number");
      }
      value = static_cast<T>(found->get<uint64_t>());
    } else if constexpr (std::is_same_v<T, Time>) {
      if (!found->is_number_integer()) return Fail(name, "a time");
      value = FromMillis(found->get<int64_t>());
    } else {
      static_assert(std::is_same_v<T, std::string>);
      if (!found->is_string()) return Fail(name, "a text");
      value = found->get<std::string>();
    }
  }
  // Calls read(item) for each of a list.
  template <class Read>
  void ReadList(const char* name, const Read& read) {
    const json* const found = Find(name);
    if (found == nullptr) return;
    if (!found->is_array()) return Fail(name, "a list");
    for (const json& item : *found) status_.Update(read(item));
  }
  const json* Find(const char* name) const {
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void Fail(const char* name, const char* wanted) {
    status_.Update(DamagedSession(StrCat(name, " is not ", wanted)));
  }
  void Update(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }

 private:
  const json& object_;
  absl::Status status_;
};

json Format(const StoredSnapshot& snapshot) {
  return {{"name", snapshot.name},
          {"tokens", snapshot.tokens},
          {"computed", snapshot.computed}};
}

absl::Status Parse(const json& object, StoredSnapshot& snapshot) {
  SessionReader reader(object);
  reader.Read("name", snapshot.name);
  reader.Read("sequence", snapshot.sequence);
  reader.Read("tokens", snapshot.tokens);
  reader.Read("computed", snapshot.computed);
  return reader.status();
}

const char* NameOf(Durability durability) {
  return durability == Durability::kAlways ? "always"
         : durability == Durability::kTurn ? "turn"
                                           : "none";
}

}  // namespace

std::optional<Time> StoredSession::expiry() const {
  if (ttl) return last_use_time + *ttl;
  return expire_time;
}

std::string FormatStoredSession(const StoredSession& session) {
  json object = {{"format", StoredSession::kFormat},
                 {"epoch", session.epoch},
                 {"sequence", session.sequence},
                 {"model", session.model},
                 {"model_id", session.model_id},
                 {"durability", NameOf(session.durability)},
                 {"create_time", ToMillis(session.create_time)},
                 {"last_use_time", ToMillis(session.last_use_time)},
                 {"settings", FormatSessionRecord(
                                  {.ttl = session.ttl, .sampling = session.sampling})}};
  if (session.expire_time) object["expire_time"] = ToMillis(*session.expire_time);
  if (session.paused) object["paused"] = true;
  if (session.rebuilt) object["rebuilt"] = true;
  if (!session.parent.empty()) object["parent"] = session.parent;
  if (!session.request_id.empty()) {
    object["request_id"] = session.request_id;
    object["request_text"] = session.request_text;
    object["drawn_id"] = session.drawn_id;
  }
  if (!session.request_ids.empty()) object["request_ids"] = session.request_ids;
  if (!session.newest_call.empty()) object["newest_call"] = session.newest_call;
  if (session.scored_from) object["scored_from"] = *session.scored_from;
  for (const StoredSnapshot& snapshot : session.snapshots) {
    object["snapshots"].push_back(Format(snapshot));
  }
  for (const StoredCheckpoint& checkpoint : session.checkpoints) {
    object["checkpoints"].push_back({{"id", checkpoint.id},
                                     {"request_id", checkpoint.request_id},
                                     {"create_time", ToMillis(checkpoint.create_time)},
                                     {"snapshot", Format(checkpoint.snapshot)}});
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<StoredSession> ParseStoredSession(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  StoredSession session;
  SessionReader reader(object);
  session.format = 0;
  reader.Read("format", session.format);
  if (reader.status().ok() && session.format > StoredSession::kFormat) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("the record of the session has format ", session.format,
                            ", this server reads up to ", StoredSession::kFormat),
                     {.reason = "STORE_FORMAT"});
  }
  reader.Read("epoch", session.epoch);
  reader.Read("sequence", session.sequence);
  std::string durability, settings = "{}";
  reader.Read("model", session.model);
  reader.Read("model_id", session.model_id);
  reader.Read("durability", durability);
  session.durability = durability == "always" ? Durability::kAlways : Durability::kTurn;
  if (durability != NameOf(session.durability)) reader.Fail("durability", "a level");
  reader.Read("create_time", session.create_time);
  reader.Read("last_use_time", session.last_use_time);
  reader.Read("settings", settings);
  if (const absl::StatusOr<SessionRecord> record = ParseSessionRecord(settings);
      record.ok()) {
    session.ttl = record->ttl;
    session.sampling = record->sampling;
  } else {
    reader.Update(record.status());
  }
  if (reader.Find("expire_time") != nullptr) {
    reader.Read("expire_time", session.expire_time.emplace());
  }
  reader.Read("paused", session.paused);
  reader.Read("rebuilt", session.rebuilt);
  reader.Read("parent", session.parent);
  reader.Read("request_id", session.request_id);
  reader.Read("request_text", session.request_text);
  reader.Read("drawn_id", session.drawn_id);
  reader.ReadList("request_ids", [&](const json& id) {
    if (!id.is_string()) return DamagedSession("request_ids has what is no text");
    session.request_ids.push_back(id.get<std::string>());
    return absl::OkStatus();
  });
  reader.Read("newest_call", session.newest_call);
  if (reader.Find("scored_from") != nullptr) {
    reader.Read("scored_from", session.scored_from.emplace());
  }
  reader.ReadList("snapshots", [&](const json& item) {
    return Parse(item, session.snapshots.emplace_back());
  });
  reader.ReadList("checkpoints", [&](const json& item) {
    StoredCheckpoint& checkpoint = session.checkpoints.emplace_back();
    SessionReader inner(item);
    inner.Read("id", checkpoint.id);
    inner.Read("request_id", checkpoint.request_id);
    inner.Read("create_time", checkpoint.create_time);
    const json* const snapshot = inner.Find("snapshot");
    if (snapshot == nullptr) return DamagedSession("a checkpoint without a snapshot");
    inner.Update(Parse(*snapshot, checkpoint.snapshot));
    return inner.status();
  });
  MNEMON_RETURN_IF_ERROR(reader.status());
  return session;
}

}  // namespace mnemon
