// SPDX-License-Identifier: MIT
// Check of the configuration fields that an architecture uses.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "model/families/config.h"

namespace mnemon {

// Collects all faults of a configuration for status().
class FieldCheck {
 public:
  // Every field that is not in `used`, except sizes and dropout, must have its default
  // value.
  FieldCheck(const ModelConfig& config, std::initializer_list<std::string_view> used);

  // Notes a fault of `field` unless `holds`; `needed` describes valid values.
  void Require(bool holds, std::string_view field, std::string_view needed);

  // OK, or INVALID_ARGUMENT.
  absl::Status status() const;

 private:
  const std::string architecture_;
  std::string first_field_;
  std::vector<std::string> faults_;
};

}  // namespace mnemon
