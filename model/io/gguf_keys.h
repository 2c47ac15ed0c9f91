// SPDX-License-Identifier: MIT
// The settings of a model in a GGUF file, read key by key. A key of the architecture
// that nobody has asked for, and a key of an unknown kind, is refused by its name: what
// is read over silently may change what the model computes.
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

// Refers to the file. Keys are those behind "ARCHITECTURE.". Each reading notes a fault
// where the key is absent and has no default, or is of another type or out of range,
// and gives the default or nothing then.
class GgufKeys {
 public:
  GgufKeys(const Gguf& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  bool Has(std::string_view key) const { return file_.values.contains(Whole(key)); }
  int64_t Integer(std::string_view key, std::optional<int64_t> otherwise = {});
  double Number(std::string_view key, std::optional<double> otherwise = {});
  std::string Text(std::string_view key, const std::string& otherwise);
  // Of an array of integers or flags.
  std::vector<int64_t> Integers(std::string_view key);
  // Notes a fault of any key but the only value that is supported.
  void OnlyInteger(std::string_view key, int64_t supported);
  void OnlyNumber(std::string_view key, double supported);
  void Ignore(std::string_view key) { asked_.insert(Whole(key)); }
  void Refuse(std::string_view key, std::string_view what);
  // Of something else than a key.
  void Fault(std::string what) { faults_.push_back(std::move(what)); }

  // One INVALID_ARGUMENT with all faults, and with all keys that are not known.
  absl::Status status() const;

 private:
  std::string Whole(std::string_view key) const;

  const Gguf& file_;
  const std::string architecture_;
  std::set<std::string, std::less<>> asked_;
  std::vector<std::string> faults_;
};

}  // namespace mnemon
