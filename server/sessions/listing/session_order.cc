// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_order.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <type_traits>

#include "absl/status/status.h"
#include "base/error.h"
#include "base/process/nearest_name.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using Type = SessionField::Type;
using Facts = SessionFacts;

// In the order of the enumerations of request.h.
constexpr std::string_view kStates[] = {"IDLE", "QUEUED", "RUNNING", "PAUSED",
                                        "DETACHED"};
constexpr std::string_view kLevels[] = {"NONE", "TURN", "ALWAYS"};
constexpr std::string_view kTiers[] = {"DEVICE", "HOST", "DISK"};
constexpr std::string_view kTruths[] = {"false", "true"};

constexpr std::string_view kSessions = "sessions/";
constexpr std::string_view kModels = "models/";

template <auto Member>
FieldValue MemberOf(const Facts& facts) {
  const auto& value = facts.*Member;
  if constexpr (std::is_convertible_v<decltype(value), std::string>) {
    return value;
  } else {
    return static_cast<int64_t>(value);
  }
}

template <auto Member>
FieldValue TimeOf(const Facts& facts) {
  return InstantOf(facts.*Member);
}

// Whole milliseconds: it is computed from two clocks, whose difference varies below.
FieldValue ExpireTimeOf(const Facts& facts) {
  if (!facts.expire_time) return Absent();
  return InstantOf(std::chrono::floor<std::chrono::milliseconds>(*facts.expire_time));
}

constexpr SessionField kFields[] = {
    {"name", Type::kText, &MemberOf<&Facts::id>, kSessions},
    {"model", Type::kText, &MemberOf<&Facts::model>, kModels},
    {"state", Type::kEnumeration, &MemberOf<&Facts::state>, {}, kStates},
    {"token_count", Type::kInteger, &MemberOf<&Facts::position>},
    {"state_size_bytes", Type::kInteger, &MemberOf<&Facts::state_size_bytes>},
    {"create_time", Type::kTime, &TimeOf<&Facts::create_time>},
    {"last_use_time", Type::kTime, &TimeOf<&Facts::last_use_time>},
    {"expire_time", Type::kTime, &ExpireTimeOf},
    {"parent", Type::kText, &MemberOf<&Facts::parent>, kSessions},
    {"rebuilt", Type::kTruth, &MemberOf<&Facts::rebuilt>, {}, kTruths},
    {"paused", Type::kTruth, &MemberOf<&Facts::paused>, {}, kTruths},
    {"durability", Type::kEnumeration, &MemberOf<&Facts::durability>, {}, kLevels},
    {"tier", Type::kEnumeration, &MemberOf<&Facts::tier>, {}, kTiers},
    {"model_id", Type::kText, &MemberOf<&Facts::model_id>},
    {"numerics_id", Type::kText, &MemberOf<&Facts::numerics_id>},
};

constexpr std::string_view kSpace = " \t\n\r";

absl::Status OrderError(std::string_view fault) {
  return InvalidField("order_by", StrCat("order_by: ", fault));
}

// The word that begins `text`, without the space around it; it is taken off.
std::string_view TakeWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  const std::string_view word =
      text.substr(0, std::min(text.find_first_of(kSpace), text.size()));
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return word;
}

absl::StatusOr<SessionOrder::Key> ParseKey(std::string_view text) {
  const std::string_view name = TakeWord(text);
  if (name.empty()) return OrderError("expected a field before, behind or between ','");
  const SessionField* field = FindSessionField(name);
  if (field == nullptr) return OrderError(UnknownSessionField(name));
  const std::string_view direction = TakeWord(text);
  if (!text.empty() ||
      (!direction.empty() && direction != "asc" && direction != "desc")) {
    return OrderError(StrCat("behind the field ", name,
                             " stands asc, desc or nothing, not ",
                             Quoted(text.empty() ? direction : text)));
  }
  return SessionOrder::Key{field, direction == "desc"};
}

}  // namespace

const SessionField* FindSessionField(std::string_view name) {
  const auto found = std::ranges::find(kFields, name, &SessionField::name);
  return found == std::end(kFields) ? nullptr : found;
}

std::string UnknownSessionField(std::string_view name) {
  std::vector<std::string> names;
  for (const SessionField& field : kFields) names.emplace_back(field.name);
  return StrCat("there is no field ", Quoted(name), ": the fields are ",
                StrJoin(names, ", "), DidYouMean(name, names));
}

absl::StatusOr<SessionOrder> SessionOrder::Parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return OrderError(StrCat("at most ", kMaxBytes, " bytes, got ", text.size()));
  }
  SessionOrder order;
  if (text.find_first_not_of(kSpace) == text.npos) return order;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != text.npos;
    MNEMON_ASSIGN_OR_RETURN(const Key key, ParseKey(text.substr(0, comma)));
    text.remove_prefix(more ? comma + 1 : text.size());
    if (std::ranges::count(order.keys_, key.field, &Key::field) > 0) {
      return OrderError(StrCat("the field ", key.field->name, " stands there twice"));
    }
    if (order.keys_.size() == kMaxFields) {
      return OrderError(StrCat("at most ", kMaxFields, " fields"));
    }
    order.keys_.push_back(key);
  }
  // Names are unique: keys after one never decide, and it comes last by itself.
  auto end = std::ranges::find(order.keys_, FindSessionField("name"), &Key::field);
  if (end != order.keys_.end() && end->descending) ++end;
  order.keys_.erase(end, order.keys_.end());
  return order;
}

SessionOrder::Place SessionOrder::PlaceOf(const SessionFacts& facts) const {
  Place place;
  for (const Key& key : keys_) place.values.push_back(key.field->value(facts));
  place.id = facts.id;
  return place;
}

bool SessionOrder::Before(const Place& a, const Place& b) const {
  for (size_t i = 0; i < keys_.size(); ++i) {
    const auto order = a.values[i] <=> b.values[i];
    if (order != 0) return keys_[i].descending ? order > 0 : order < 0;
  }
  return a.id < b.id;
}

std::string SessionOrder::text() const {
  std::string text;
  for (const Key& key : keys_) {
    text += StrCat(key.field->name, key.descending ? " desc," : ",");
  }
  return text;
}

}  // namespace mnemon
