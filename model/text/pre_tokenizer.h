// SPDX-License-Identifier: MIT
// The pre_tokenizer of a tokenizer.json: where a text is cut before it is merged.
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

// A part of a text, of valid UTF-8.
struct TextPiece {
  std::string_view text;
  bool first = false;  // begins where the whole text does
};

// Constant after construction; safe for concurrent use.
class PreTokenizer {
 public:
  PreTokenizer() = default;  // cuts nothing
  // ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split, Whitespace and
  // WhitespaceSplit; INVALID_ARGUMENT names another type, and a step behind ByteLevel.
  static absl::StatusOr<PreTokenizer> Parse(const nlohmann::json& json);

  // Whether what is cut is taken byte by byte.
  bool byte_level() const { return byte_level_; }
  // Calls each(piece) for the pieces in order, none of them empty. They last as long as
  // the call.
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
  // Where what is cut at lies: matches of a pattern, or characters of a class.
  struct Split {
    std::variant<TextPattern, Characters> at;
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
  // By the steps from `step` on.
  absl::Status CutFrom(size_t step, const TextPiece& piece, Each each) const;
  // Calls part(begin, end) for the parts of a text.
  using Part = absl::FunctionRef<absl::Status(size_t, size_t)>;
  static absl::Status Apply(const Split& split, std::string_view text, Part part);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace mnemon
