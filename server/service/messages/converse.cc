// SPDX-License-Identifier: MIT
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "server/service/messages/messages.h"

namespace mnemon {
namespace {

bool IsBelow(std::string_view message, std::string_view path) {
  return path == message || (path.size() > message.size() &&
                             path.starts_with(message) && path[message.size()] == '.');
}

}  // namespace

v1::GenerateRequest TurnOf(const v1::ConverseRequest::Open& open,
                           const v1::ConverseRequest::Turn& turn) {
  v1::GenerateRequest request;
  request.set_session(open.session());
  request.set_model(open.model());
  request.set_priority(open.priority());
  if (turn.has_prompt()) *request.mutable_prompt() = turn.prompt();
  if (turn.has_sampling()) {
    *request.mutable_sampling() = turn.sampling();
  } else if (open.has_sampling()) {
    *request.mutable_sampling() = open.sampling();
  }
  *request.mutable_stopping() = turn.has_stopping() ? turn.stopping() : open.stopping();
  *request.mutable_output() = open.output();
  request.set_request_id(turn.request_id());
  if (turn.has_resume_after_index()) {
    request.set_resume_after_index(turn.resume_after_index());
  }
  if (turn.has_expected_token_count()) {
    request.set_expected_token_count(turn.expected_token_count());
  }
  request.set_on_disconnect(turn.on_disconnect());
  return request;
}

absl::Status ErrorOfTurn(const absl::Status& error,
                         const v1::ConverseRequest::Open& open,
                         const v1::ConverseRequest::Turn& turn) {
  std::optional<ErrorDetail> detail = GetErrorDetail(error);
  if (!detail || detail->field.empty()) return error;
  const std::string path = RequestPath(detail->field, ScopeOf(TurnOf(open, turn)));
  bool of_open = path == "session" || path == "model" || path == "priority" ||
                 IsBelow("output", path);
  of_open = of_open || (IsBelow("sampling", path) && !turn.has_sampling());
  of_open = of_open || (IsBelow("stopping", path) && !turn.has_stopping());
  detail->field = StrCat(of_open ? "open." : "turn.", path);
  return MakeError(error.code(), std::string(error.message()), *std::move(detail));
}

RequestScope ScopeOf(const v1::ConverseRequest::Open& r) {
  return {.session = r.session(), .model = r.model(), .paths = {}};
}

}  // namespace mnemon
