// SPDX-License-Identifier: MIT
#include "server/engine/session_record.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "server/engine/request_check.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr char kTtl[] = "ttl_ms";

absl::Status Damaged(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss,
                   StrCat("the record of the session: ", what),
                   {.reason = "SNAPSHOT_DAMAGED"});
}

}  // namespace

std::string FormatSessionRecord(const SessionRecord& record) {
  json object = json::object();
  if (record.ttl) object[kTtl] = record.ttl->count();
  return object.dump();
}

absl::StatusOr<SessionRecord> ParseSessionRecord(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Damaged("not a JSON object");
  SessionRecord record;
  if (const auto ttl = object.find(kTtl); ttl != object.end()) {
    if (!ttl->is_number_integer()) return Damaged("ttl_ms is not an integer");
    record.ttl = std::chrono::milliseconds(ttl->get<int64_t>());
    if (!CheckTtl(record.ttl).ok()) return Damaged("ttl_ms is out of range");
  }
  return record;
}

}  // namespace mnemon
