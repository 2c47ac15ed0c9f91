// SPDX-License-Identifier: MIT
// Reader for the settings of a model in a GGUF file, key by key. A key of the
// architecture that nobody requested, and a key of an unknown kind, is refused by name:
// ignoring it might change what the model computes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "model/io/gguf.h"

namespace mnemon {

// Refers to the file. Keys are what follows "ARCHITECTURE.". Each read notes a fault if
// the key is absent without a default, has another type or is out of range, and then
// returns the default or nothing.
class GgufKeys {
 public:
  GgufKeys(const Gguf& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  bool Has(std::string_view key) const { return file_.values.contains(Whole(key)); }
  int64_t Integer(std::string_view key, std::optional<int64_t> otherwise = {});
  double Number(std::string_view key, std::optional<double> otherwise = {});
  std::string Text(std::string_view key, const std::string& otherwise);
  // For an array of integers or flags.
  std::vector<int64_t> Integers(std::string_view key);
  // Notes a fault if the key is present with another value than the supported one.
  void OnlyInteger(std::string_view key, int64_t supported);
  void OnlyNumber(std::string_view key, double supported);
  void Ignore(std::string_view key) { asked_.insert(Whole(key)); }
  void Refuse(std::string_view key, std::string_view what);
  // Notes a fault of something else than a key.
  void Fault(std::string what) { faults_.push_back(std::move(what)); }

  // One INVALID_ARGUMENT with all faults and all unknown keys.
  absl::Status status() const;

 private:
  std::string Whole(std::string_view key) const;

  const Gguf& file_;
  const std::string architecture_;
  std::set<std::string, std::less<>> asked_;
  std::vector<std::string> faults_;
};

}  // namespace mnemon
