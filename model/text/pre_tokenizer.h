// SPDX-License-Identifier: MIT
// The pre_tokenizer of a tokenizer.json, which cuts a text into pieces before merging.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/text/normalizer.h"
#include "model/text/tokenizer_part.h"
#include "model/text/unicode/unicode.h"

namespace mnemon {

// A part of a text, in valid UTF-8.
struct TextPiece {
  std::string_view text;
  bool first = false;  // at the beginning of the whole text
};

// Immutable after construction; safe for concurrent use.
class PreTokenizer {
 public:
  PreTokenizer() = default;  // cuts nothing
  // Supports ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split, Whitespace and
  // WhitespaceSplit; INVALID_ARGUMENT names another type, or a step after ByteLevel.
  static absl::StatusOr<PreTokenizer> Parse(const nlohmann::json& json);

  // Whether the pieces are encoded byte by byte.
  bool byte_level() const { return byte_level_; }
  // Calls each(piece) for the pieces in order, none of them empty. They are valid
  // during the call.
  using Each = absl::FunctionRef<void(std::string_view)>;
  absl::Status Cut(const TextPiece& text, Each each) const {
    return CutFrom(0, text, each);
  }

 private:
  enum class Behaviour {
    kRemoved,
    kIsolated,
    kMergedWithPrevious,
    kMergedWithNext,
    kContiguous
  };
  struct Characters {
    explicit Characters(CharacterClass characters);
    CharacterClass of;
    std::array<bool, 128> ascii;
  };
  // Where to cut: at matches of a pattern, or at characters of a class.
  struct Split {
    std::variant<TextPattern, Characters> at;
    Behaviour behaviour = Behaviour::kIsolated;
    bool invert = false;
  };
  // Text prepended to pieces that do not begin with it: to all, or to the first.
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
  // Applies the steps from `step` on.
  absl::Status CutFrom(size_t step, const TextPiece& piece, Each each) const;
  // Calls part(begin, end) for the parts of a text.
  using Part = absl::FunctionRef<absl::Status(size_t, size_t)>;
  static absl::Status Apply(const Split& split, std::string_view text, Part part);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace mnemon
