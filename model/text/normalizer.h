// SPDX-License-Identifier: MIT
// The normalizer of a tokenizer.json, applied to a text before it is cut.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/text/pattern.h"
#include "model/text/tokenizer_part.h"
#include "model/text/unicode/unicode.h"

namespace mnemon {

// "pattern" of a part: a text or a regular expression.
using TextPattern = std::variant<std::string, Pattern>;
// INVALID_ARGUMENT names the part.
absl::StatusOr<TextPattern> ReadPattern(TokenizerPart& part);
// Calls each(begin, end) for the matches in a text, from the left, until a status is
// not OK; a regular expression may fail: see Pattern::Find. No match is empty.
template <class Each>
absl::Status ForMatches(const TextPattern& pattern, std::string_view text,
                        const Each& each) {
  for (size_t at = 0; at <= text.size();) {
    Pattern::Match match;
    if (const auto* regular = std::get_if<Pattern>(&pattern)) {
      const auto found = regular->Find(text, at);
      if (!found.ok()) return found.status();
      if (!found->has_value()) break;
      match = **found;
    } else {
      const std::string& literal = std::get<std::string>(pattern);
      match.begin = literal.empty() ? text.npos : text.find(literal, at);
      if (match.begin == text.npos) break;
      match.end = match.begin + literal.size();
    }
    if (match.begin < match.end) {
      const absl::Status status = each(match.begin, match.end);
      if (!status.ok()) return status;
      at = match.end;
      continue;
    }
    // Continue after the next character.
    at = match.end + 1;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) {
      ++at;
    }
  }
  return absl::OkStatus();
}

// Immutable after construction; safe for concurrent use.
class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  // Supports Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence, Strip and
  // StripAccents; INVALID_ARGUMENT names another type.
  static absl::StatusOr<Normalizer> Parse(const nlohmann::json& json);

  bool none() const { return steps_.empty(); }
  // REQUIRES: valid UTF-8.
  absl::StatusOr<std::string> Apply(std::string_view text) const;

 private:
  struct Lower {};
  struct StripAccents {};
  struct Replace {
    TextPattern pattern;
    std::string content;
  };
  struct Prepend {
    std::string text;
  };
  struct Strip {
    bool left = true, right = true;
  };
  using Step = std::variant<NormalForm, Replace, Prepend, Strip, Lower, StripAccents>;
  absl::Status Add(TokenizerPart part, int depth);
  static absl::StatusOr<std::string> Apply(const Step& step, std::string text);

  std::vector<Step> steps_;
};

}  // namespace mnemon
