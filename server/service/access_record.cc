// SPDX-License-Identifier: MIT
#include "server/service/access_record.h"

#include <new>
#include <vector>

namespace mnemon {
namespace {

double Milliseconds(AccessRecord::Seconds time) { return time.count() * 1000; }

constexpr size_t kMostFields = 13;

// Fields that do not apply are left out.
std::vector<LogField> FieldsOf(const AccessRecord& call) {
  std::vector<LogField> fields;
  // Growth would copy fields: base/log.h.
  fields.reserve(kMostFields);
  fields.push_back({"request_id", call.request_id});
  fields.push_back({"method", call.method});
  fields.push_back({"status", StatusName(call)});
  if (!call.reason.empty()) fields.push_back({"reason", call.reason});
  if (!call.model.empty()) fields.push_back({"model", call.model});
  if (!call.session.empty()) fields.push_back({"session", call.session});
  if (call.prompt_tokens > 0) fields.push_back({"prompt_tokens", call.prompt_tokens});
  if (call.first_token) fields.push_back({"generated_tokens", call.generated_tokens});
  if (call.queue_time) fields.push_back({"queue_ms", Milliseconds(*call.queue_time)});
  if (call.first_token) {
    fields.push_back({"first_token_ms", Milliseconds(*call.first_token)});
  }
  fields.push_back({"ms", Milliseconds(call.total)});
  fields.push_back({"received_bytes", call.received_bytes});
  fields.push_back({"sent_bytes", call.sent_bytes});
  return fields;
}

}  // namespace

void LogCall(LogLevel level, const AccessRecord& call) noexcept try {
  LogEvent(level, "call", FieldsOf(call));
} catch (const std::bad_alloc&) {
  // The line is lost, the server goes on.
}

}  // namespace mnemon
