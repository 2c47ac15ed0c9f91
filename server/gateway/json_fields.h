// SPDX-License-Identifier: MIT
// The fields of a JSON object, taken one by one: each with its type, errors that name
// it, and an error for a field that nobody takes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace mnemon {

// A body as JSON. INVALID_ARGUMENT, INVALID_JSON.
absl::StatusOr<nlohmann::json> ParseBody(const std::string& body);

// A field that is null counts as absent. The first error stays: what is taken behind it
// is absent.
class JsonFields {
 public:
  // `object` outlives it.
  explicit JsonFields(const nlohmann::json& object);

  std::optional<double> Number(const std::string& name);
  std::optional<int64_t> Integer(const std::string& name, int64_t least, int64_t most);
  std::optional<bool> Boolean(const std::string& name);
  std::optional<std::string> Text(const std::string& name);
  // A string, or a list of strings.
  std::vector<std::string> Texts(const std::string& name, size_t most);
  // Of any type; null: absent.
  const nlohmann::json* Any(const std::string& name);

  // Takes a field that has no effect here, whatever it holds.
  void Ignore(const std::string& name) { taken_.insert(name); }
  // Takes a field that may only have the value that changes nothing. UNIMPLEMENTED.
  void Refuse(const std::string& name, const nlohmann::json& harmless);

  void Fault(const std::string& name, const std::string& what);
  void Fault(const absl::Status& status);
  // The first error, or one for a field that was not taken.
  absl::Status End();

 private:
  const nlohmann::json& object_;
  std::set<std::string> taken_;
  absl::Status status_;
};

}  // namespace mnemon
