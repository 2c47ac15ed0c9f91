// SPDX-License-Identifier: MIT
#include "model/text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace mnemon {
namespace {

// Of GPT-2 ("Language Models are Unsupervised Multitask Learners", Radford et al.,
// 2019), which ByteLevel stands for.
constexpr char kByteLevel[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Stretch {
  size_t begin = 0, end = 0;
  bool matches = false;
};

// Stretches of a text that match, and those between them.
absl::StatusOr<std::vector<Stretch>> Stretches(
    const std::variant<TextPattern, CharacterClass>& at, std::string_view text) {
  std::vector<Stretch> all;
  size_t done = 0;
  const auto add = [&](size_t begin, size_t end) {
    if (done < begin) all.push_back({done, begin, false});
    all.push_back({begin, end, true});
    done = end;
  };
  if (const auto* pattern = std::get_if<TextPattern>(&at)) {
    MNEMON_RETURN_IF_ERROR(ForMatches(*pattern, text, add));
  } else {
    for (size_t next = 0; next < text.size();) {
      const size_t begin = next;
      char32_t character = 0;
      if (!NextCodePoint(text, next, character)) break;
      if (IsIn(std::get<CharacterClass>(at), character)) add(begin, next);
    }
  }
  if (done < text.size()) all.push_back({done, text.size(), false});
  return all;
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const nlohmann::json& json) {
  PreTokenizer pre;
  if (json.is_null()) return pre;
  MNEMON_RETURN_IF_ERROR(pre.Add(TokenizerPart(json, "pre_tokenizer"), 0));
  return pre;
}

absl::StatusOr<PreTokenizer::Behaviour> PreTokenizer::ReadBehaviour(
    TokenizerPart& part, std::string otherwise) {
  const std::string name = part.Text("behavior", std::move(otherwise));
  if (name == "Removed") return Behaviour::kRemoved;
  if (name == "Isolated") return Behaviour::kIsolated;
  if (name == "MergedWithPrevious") return Behaviour::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behaviour::kMergedWithNext;
  if (name == "Contiguous") return Behaviour::kContiguous;
  part.Refuse(StrCat("has the behavior ", Quoted(name),
                     ", supported: Removed, Isolated, MergedWithPrevious, "
                     "MergedWithNext, Contiguous"));
  return part.status();
}

absl::Status PreTokenizer::Add(TokenizerPart part, int depth) {
  const std::string type = part.type();
  if (byte_level_) part.Refuse("comes behind ByteLevel, which is not supported");
  const auto regular = [&](const char* expression, Behaviour behaviour,
                           bool invert) -> absl::Status {
    MNEMON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(expression));
    steps_.emplace_back(Split{TextPattern(std::move(pattern)), behaviour, invert});
    return absl::OkStatus();
  };
  if (type == "Sequence") {
    if (depth == kMostNested) part.Refuse("is nested too deeply");
    for (TokenizerPart& item : part.Items("pretokenizers")) {
      MNEMON_RETURN_IF_ERROR(Add(std::move(item), depth + 1));
    }
  } else if (type == "ByteLevel") {
    part.Ignore("trim_offsets");
    if (part.Flag("add_prefix_space", true)) steps_.emplace_back(Prepend{" "});
    if (part.Flag("use_regex", true)) {
      MNEMON_RETURN_IF_ERROR(regular(kByteLevel, Behaviour::kIsolated, false));
    }
    byte_level_ = true;
  } else if (type == "Digits") {
    steps_.emplace_back(
        Split{CharacterClass::kNumeric, part.Flag("individual_digits", false)
                                            ? Behaviour::kIsolated
                                            : Behaviour::kContiguous});
  } else if (type == "Punctuation") {
    MNEMON_ASSIGN_OR_RETURN(const Behaviour behaviour, ReadBehaviour(part, "Isolated"));
    steps_.emplace_back(Split{CharacterClass::kPunctuation, behaviour});
  } else if (type == "WhitespaceSplit") {
    steps_.emplace_back(Split{CharacterClass::kWhite, Behaviour::kRemoved});
  } else if (type == "Whitespace") {
    MNEMON_RETURN_IF_ERROR(regular(R"(\w+|[^\w\s]+)", Behaviour::kRemoved, true));
  } else if (type == "Split") {
    MNEMON_ASSIGN_OR_RETURN(TextPattern pattern, ReadPattern(part));
    MNEMON_ASSIGN_OR_RETURN(const Behaviour behaviour, ReadBehaviour(part, ""));
    steps_.emplace_back(
        Split{std::move(pattern), behaviour, part.Flag("invert", false)});
  } else if (type == "Metaspace") {
    const std::string mark = part.Text("replacement", "\xE2\x96\x81");
    const bool prefix = part.Flag("add_prefix_space", true);
    const std::string scheme = part.Text("prepend_scheme", prefix ? "always" : "never");
    part.Ignore("str_rep");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      part.Refuse(StrCat("has the prepend_scheme ", Quoted(scheme),
                         ", supported: always, first, never"));
    }
    steps_.emplace_back(Replace{" ", mark});
    if (scheme != "never") steps_.emplace_back(Prepend{mark, scheme == "first"});
    if (part.Flag("split", true)) {
      steps_.emplace_back(Split{TextPattern(mark), Behaviour::kMergedWithNext});
    }
  } else {
    part.Refuse(StrCat("is of type ", Quoted(type),
                       ", supported: ByteLevel, Digits, Metaspace, Punctuation, "
                       "Sequence, Split, Whitespace, WhitespaceSplit"));
  }
  return part.status();
}

absl::Status PreTokenizer::Apply(const Split& split, const TextPiece& piece,
                                 std::vector<TextPiece>& out) {
  MNEMON_ASSIGN_OR_RETURN(std::vector<Stretch> all, Stretches(split.at, piece.text));
  if (split.invert) {
    for (Stretch& stretch : all) stretch.matches = !stretch.matches;
  }
  std::vector<Stretch> cut;
  const bool next = split.behaviour == Behaviour::kMergedWithNext;
  if (next) std::ranges::reverse(all);
  bool before = false;  // whether the last one matched
  for (const Stretch& stretch : all) {
    bool joins = false;
    switch (split.behaviour) {
      case Behaviour::kRemoved:
        if (stretch.matches) continue;
        break;
      case Behaviour::kIsolated:
        break;
      case Behaviour::kContiguous:
        joins = !cut.empty() && stretch.matches == before;
        break;
      case Behaviour::kMergedWithPrevious:
      case Behaviour::kMergedWithNext:
        joins = !cut.empty() && stretch.matches && !before;
        break;
    }
    before = stretch.matches;
    if (!joins) {
      cut.push_back(stretch);
    } else if (next) {
      cut.back().begin = stretch.begin;
    } else {
      cut.back().end = stretch.end;
    }
  }
  if (next) std::ranges::reverse(cut);
  for (const Stretch& one : cut) {
    out.push_back({piece.text.substr(one.begin, one.end - one.begin),
                   piece.first && one.begin == 0});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TextPiece>> PreTokenizer::Cut(const TextPiece& text,
                                                         KeptTexts& kept) const {
  std::vector<TextPiece> pieces, next;
  if (!text.text.empty()) pieces.push_back(text);
  for (const Step& step : steps_) {
    next.clear();
    for (TextPiece& piece : pieces) {
      if (const auto* split = std::get_if<Split>(&step)) {
        MNEMON_RETURN_IF_ERROR(Apply(*split, piece, next));
        continue;
      }
      if (const auto* prepend = std::get_if<Prepend>(&step)) {
        const bool wanted = piece.first || !prepend->first_alone;
        if (wanted && !piece.text.starts_with(prepend->text)) {
          piece.text = kept.emplace_back(StrCat(prepend->text, piece.text));
        }
      } else {
        const auto& replace = std::get<Replace>(step);
        std::string changed;
        for (size_t at = 0;;) {
          const size_t found = piece.text.find(replace.from, at);
          changed += piece.text.substr(at, found - at);
          if (found == piece.text.npos) break;
          changed += replace.to;
          at = found + replace.from.size();
        }
        piece.text = kept.emplace_back(std::move(changed));
      }
      next.push_back(piece);
    }
    std::swap(pieces, next);
  }
  return pieces;
}

}  // namespace mnemon
