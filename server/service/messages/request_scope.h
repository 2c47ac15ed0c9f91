// SPDX-License-Identifier: MIT
// The names that errors of one call use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mnemon {

// A field as the engine names it, and its path in the request.
struct FieldPath {
  std::string_view engine;
  std::string_view request;
};

// The names that errors of one call use: those of its request.
struct RequestScope {
  std::string session;  // "sessions/x" or empty
  std::string model;    // "models/x" or empty
  std::vector<FieldPath> paths;
};

// The path in the request of `field`, which may have an index: "prompt[3]".
std::string RequestPath(const std::string& field, const RequestScope& scope);

// UNIMPLEMENTED for a request field or a method that a later version brings.
absl::Status FieldNotAvailable(std::string_view field);
absl::Status MethodNotAvailable(std::string_view method);

}  // namespace mnemon
