// SPDX-License-Identifier: MIT
// Messages of the API as JSON: the JSON mapping of proto3 with the fields' own names,
// in which 64-bit integers are numbers.
#pragma once

#include <string>

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace mnemon {

// Fields that are not set are left out where they are optional, messages or lists.
nlohmann::json ToJson(const google::protobuf::Message& message);

// Adds the fields of an object to `message`. Integers may be numbers or strings.
// INVALID_ARGUMENT for a field that is unknown or of another type names it.
absl::Status FromJson(const nlohmann::json& object, google::protobuf::Message& message);

}  // namespace mnemon
