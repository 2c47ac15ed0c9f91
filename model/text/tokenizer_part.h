// SPDX-License-Identifier: MIT
// Reader for the parts of tokenizer.json: an object with a type, whose other members
// are requested by name. Members that nobody requests are refused, since they may
// change the tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"

namespace mnemon {

// Maximum nesting of parts.
inline constexpr int kMostNested = 8;

absl::Status TokenizerFault(std::string_view what);

// Refers to the JSON. Each read notes a fault if a member is absent without a default,
// or has another type, and then returns the default or nothing.
class TokenizerPart {
 public:
  // `path`: "normalizer", for messages.
  TokenizerPart(const nlohmann::json& json, std::string path);

  std::string type() { return Text("type"); }
  std::string Text(std::string_view key, std::optional<std::string> otherwise = {});
  bool Flag(std::string_view key, std::optional<bool> otherwise = {});
  int64_t Integer(std::string_view key);
  // A value of any type; null counts as absent.
  const nlohmann::json* Find(std::string_view key);
  // Objects of an array.
  std::vector<TokenizerPart> Items(std::string_view key);
  void Ignore(std::string_view key) { asked_.emplace(key); }
  void Refuse(std::string_view what);

  const std::string& path() const { return path_; }
  // The first fault, or one that names the members that nobody requested.
  absl::Status status() const;

 private:
  const nlohmann::json& json_;
  const std::string path_;
  std::set<std::string, std::less<>> asked_;
  absl::Status fault_;
};

}  // namespace mnemon
