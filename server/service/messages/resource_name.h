// SPDX-License-Identifier: MIT
// Resource names: "sessions/{id}" and "models/{name}".
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mnemon {

std::string SessionResource(std::string_view id);
std::string ModelResource(std::string_view name);

// The part behind the slash, see base/resource_id.h. INVALID_ARGUMENT names `field`.
absl::StatusOr<std::string> ParseSessionResource(std::string_view resource,
                                                 std::string_view field);
absl::StatusOr<std::string> ParseModelResource(std::string_view resource,
                                               std::string_view field);

// As above; empty stays empty.
absl::StatusOr<std::string> ParseOptionalSession(std::string_view resource,
                                                 std::string_view field);
absl::StatusOr<std::string> ParseOptionalModel(std::string_view resource,
                                               std::string_view field);

}  // namespace mnemon
