// SPDX-License-Identifier: MIT
// A check of the configuration fields that an architecture takes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "model/families/config.h"

namespace mnemon {

// Collects the faults of one configuration; status() lists them all.
class FieldCheck {
 public:
  // Every field that is not in `used` (nor common to all architectures: sizes and
  // dropout) must have its default value.
  FieldCheck(const ModelConfig& config, std::initializer_list<std::string_view> used);

  // A fault named `field` unless `holds`; `needed` names what would be right.
  void Require(bool holds, std::string_view field, std::string_view needed);

  // OK, or INVALID_ARGUMENT.
  absl::Status status() const;

 private:
  const std::string architecture_;
  std::string first_field_;
  std::vector<std::string> faults_;
};

}  // namespace mnemon
