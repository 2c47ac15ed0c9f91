// SPDX-License-Identifier: MIT
// Reader for a configuration file of another project, key by key. Keys that nobody
// requested and that are not known to leave logits unchanged are refused by name:
// ignoring a setting would give wrong numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

// A copy refers to the same object of the file, which lives as long as any of them.
class ForeignConfig {
 public:
  // INVALID_ARGUMENT if it is not a JSON object.
  static absl::StatusOr<ForeignConfig> Parse(std::string_view json);

  // Whether the key is present and not null.
  bool Has(std::string_view key) const;

  // Each notes a fault if the key is absent without a default, has another type or is
  // out of range, and then returns the default or nothing. null counts as absent.
  int64_t Integer(std::string_view key, std::optional<int64_t> otherwise = {});
  double Number(std::string_view key, std::optional<double> otherwise = {});
  bool Flag(std::string_view key, std::optional<bool> otherwise = {});
  std::string Text(std::string_view key, std::optional<std::string> otherwise = {});
  std::vector<std::string> Texts(std::string_view key);
  std::vector<int64_t> Integers(std::string_view key);
  // The object at a key; empty if absent.
  ForeignConfig Section(std::string_view key);

  // Ignores keys that do not change logits, or are read elsewhere.
  void Ignore(std::initializer_list<std::string_view> keys);
  // Notes a fault of a key: its value, and what is supported.
  void Refuse(std::string_view key, std::string_view supported);
  // Refuses flags that are true, and values other than null, 0 and false.
  void RefuseIfSet(std::initializer_list<std::string_view> keys);

  // One INVALID_ARGUMENT with all faults of the file so far, and with all keys of this
  // object and its sections that nobody requested.
  absl::Status status() const;

 private:
  struct File;
  ForeignConfig(std::shared_ptr<File> file, const nlohmann::json* object,
                std::string path);

  // Null if absent.
  const nlohmann::json* Find(std::string_view key);
  template <class T, class Reads>
  T Value(std::string_view key, const std::optional<T>& otherwise,
          std::string_view wanted, const Reads& reads);
  void Fault(std::string_view key, std::string_view what);

  std::shared_ptr<File> file_;
  const nlohmann::json* object_;
  std::string path_;  // prefix of its keys
};

}  // namespace mnemon
