// SPDX-License-Identifier: MIT
// The parts of tokenizer.json as they are read: an object with a type, whose other
// members are asked for by name. What nobody asks for is refused, as it may change the
// tokens.
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

// Parts may lie within parts so deep.
inline constexpr int kMostNested = 8;

absl::Status TokenizerFault(std::string_view what);

// Refers to the JSON. Each reading notes a fault where a member is not there and has no
// default, or is of another type, and gives the default or nothing then.
class TokenizerPart {
 public:
  // `path`: "normalizer", for messages.
  TokenizerPart(const nlohmann::json& json, std::string path);

  std::string type() { return Text("type"); }
  std::string Text(std::string_view key, std::optional<std::string> otherwise = {});
  bool Flag(std::string_view key, std::optional<bool> otherwise = {});
  int64_t Integer(std::string_view key);
  // Any value; null is not there.
  const nlohmann::json* Find(std::string_view key);
  // Objects of an array.
  std::vector<TokenizerPart> Items(std::string_view key);
  void Ignore(std::string_view key) { asked_.emplace(key); }
  void Refuse(std::string_view what);

  const std::string& path() const { return path_; }
  // The first fault, or one that names the members that nobody has asked for.
  absl::Status status() const;

 private:
  const nlohmann::json& json_;
  const std::string path_;
  std::set<std::string, std::less<>> asked_;
  absl::Status fault_;
};

}  // namespace mnemon
