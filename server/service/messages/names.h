// SPDX-License-Identifier: MIT
// The names that requests and errors use: of resources, "sessions/{id}" and
// "models/{name}", and of the fields of a request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mnemon {

std::string SessionResource(std::string_view id);
std::string ModelResource(std::string_view name);

// The part after the slash, see base/resource_id.h. INVALID_ARGUMENT names `field`.
absl::StatusOr<std::string> ParseSessionResource(std::string_view resource,
                                                 std::string_view field);
absl::StatusOr<std::string> ParseModelResource(std::string_view resource,
                                               std::string_view field);
// As above; empty stays empty.
absl::StatusOr<std::string> ParseOptionalSession(std::string_view resource,
                                                 std::string_view field);
absl::StatusOr<std::string> ParseOptionalModel(std::string_view resource,
                                               std::string_view field);

// A field as the engine names it, and its path in the request.
struct FieldPath {
  std::string_view engine;
  std::string_view request;
};

// The names that errors of one call use: those of its request.
struct RequestScope {
  std::string session = {};  // "sessions/x" or empty
  std::string model = {};    // "models/x" or empty
  std::vector<FieldPath> paths = {};
  std::string_view sampling = {};  // path of v1.Sampling; empty: the engine's names
  std::string_view settings = {};  // path of a session's settings; likewise
};

// The path in the request of `field`, which may have an index: "prompt[3]".
std::string RequestPath(const std::string& field, const RequestScope& scope);

// UNIMPLEMENTED for a request field that a later version brings.
absl::Status FieldNotAvailable(std::string_view field);
// INVALID_ARGUMENT for a number that the enum of a request field does not have.
absl::Status NoSuchValue(std::string_view field, int value);

}  // namespace mnemon
