// SPDX-License-Identifier: MIT
// Errors of the HTTP API: the code and the JSON object of a status.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "server/http/http_message.h"

namespace mnemon {

// {"error": {"message", "type", "param", "code", "status", "retry_after_ms",
// "metadata"}}: OpenAI's form; `code` is the reason of the gRPC error, `status` its
// code's name. The last two only where the error has them.
nlohmann::json ErrorJson(const absl::Status& status);

// The same with the HTTP code, and the header Retry-After where a retry can help.
HttpResponse ErrorResponse(const absl::Status& status);

// NOT_FOUND, PATH_NOT_FOUND.
absl::Status PathNotFound(const std::string& path);

}  // namespace mnemon
