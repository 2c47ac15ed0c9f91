// SPDX-License-Identifier: MIT
// The ids under which calls appear in the log.
#pragma once

#include <string>
#include <string_view>

#include <grpcpp/server_context.h>

namespace mnemon {

// What the caller sent as x-request-id, if it is 1 to 64 letters, digits, '-', '_' and
// '.'; else 16 random hexadecimal digits.
std::string ChooseRequestId(std::string_view sent);

// Between Remember and Forget, RequestIdOf(context) is `id`; else it is empty. Safe for
// concurrent use.
void RememberRequestId(const grpc::ServerContextBase* context, const std::string& id);
void ForgetRequestId(const grpc::ServerContextBase* context);
std::string RequestIdOf(const grpc::ServerContextBase* context);

}  // namespace mnemon
