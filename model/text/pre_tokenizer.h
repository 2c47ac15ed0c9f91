// SPDX-License-Identifier: MIT
// The pre_tokenizer of a tokenizer.json: where a text is cut before it is merged.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/text/normalizer.h"
#include "model/text/tokenizer_part.h"
#include "model/text/unicode/unicode.h"

namespace mnemon {

// A part of a text, of valid UTF-8.
struct TextPiece {
  std::string_view text;
  bool first = false;  // begins where the whole text does
};

// What a cut text refers to.
using KeptTexts = std::deque<std::string>;

// Constant after construction; safe for concurrent use.
class PreTokenizer {
 public:
  PreTokenizer() = default;  // cuts nothing
  // ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split, Whitespace and
  // WhitespaceSplit; INVALID_ARGUMENT names another type, and a step behind ByteLevel.
  static absl::StatusOr<PreTokenizer> Parse(const nlohmann::json& json);

  // Whether what is cut is taken byte by byte.
  bool byte_level() const { return byte_level_; }
  // The pieces, none of them empty. `kept` keeps those that are not of `text`.
  absl::StatusOr<std::vector<TextPiece>> Cut(const TextPiece& text,
                                             KeptTexts& kept) const;

 private:
  enum class Behaviour {
    kRemoved,
    kIsolated,
    kMergedWithPrevious,
    kMergedWithNext,
    kContiguous
  };
  // Where what is cut at lies: matches of a pattern, or characters of a class.
  struct Split {
    std::variant<TextPattern, CharacterClass> at;
    Behaviour behaviour = Behaviour::kIsolated;
    bool invert = false;
  };
  // Text in front of a piece that does not begin with it, of all or of the first.
  struct Prepend {
    std::string text;
    bool first_alone = false;
  };
  struct Replace {
    std::string from, to;
  };
  using Step = std::variant<Split, Prepend, Replace>;

  absl::Status Add(TokenizerPart part, int depth);
  static absl::StatusOr<Behaviour> ReadBehaviour(TokenizerPart& part,
                                                 std::string otherwise);
  static absl::Status Apply(const Split& split, const TextPiece& piece,
                            std::vector<TextPiece>& out);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace mnemon
