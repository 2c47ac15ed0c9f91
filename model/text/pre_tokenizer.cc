// SPDX-License-Identifier: MIT
#include "model/text/pre_tokenizer.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace mnemon {
namespace {

// The expression of GPT-2 ("Language Models are Unsupervised Multitask Learners",
// Radford et al., 2019), which ByteLevel uses.
constexpr char kByteLevel[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Cuts are nested calls.
constexpr size_t kMostCuts = 64;

}  // namespace

PreTokenizer::Characters::Characters(CharacterClass characters) : of(characters) {
  for (char32_t c = 0; c < ascii.size(); ++c) ascii[c] = IsIn(of, c);
}

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
  if (byte_level_) part.Refuse("comes after ByteLevel, which is not supported");
  if (steps_.size() > kMostCuts) {
    part.Refuse(StrCat("comes after ", steps_.size(), " steps, at most ", kMostCuts,
                       " are supported"));
  }
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
    steps_.emplace_back(Split{Characters(CharacterClass::kNumeric),
                              part.Flag("individual_digits", false)
                                  ? Behaviour::kIsolated
                                  : Behaviour::kContiguous});
  } else if (type == "Punctuation") {
    MNEMON_ASSIGN_OR_RETURN(const Behaviour behaviour, ReadBehaviour(part, "Isolated"));
    steps_.emplace_back(Split{Characters(CharacterClass::kPunctuation), behaviour});
  } else if (type == "WhitespaceSplit") {
    steps_.emplace_back(Split{Characters(CharacterClass::kWhite), Behaviour::kRemoved});
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

absl::Status PreTokenizer::Apply(const Split& split, std::string_view text, Part part) {
  // The last part so far, which the next stretch of the text may join.
  size_t first = 0, last = 0;
  bool before = false;  // whether its last stretch is a separator
  const auto add = [&](size_t begin, size_t end, bool matches) {
    const bool at = matches != split.invert;
    bool joins = false;
    switch (split.behaviour) {
      case Behaviour::kRemoved:
        if (at) return absl::OkStatus();
        break;
      case Behaviour::kIsolated:
        break;
      case Behaviour::kContiguous:
        joins = at == before;
        break;
      case Behaviour::kMergedWithPrevious:
        joins = at && !before;
        break;
      case Behaviour::kMergedWithNext:
        joins = !at && before;
        break;
    }
    before = at;
    absl::Status status;
    if (first == last || !joins) {
      if (first < last) status = part(first, last);
      first = begin;
    }
    last = end;
    return status;
  };
  size_t done = 0;
  const auto match = [&](size_t begin, size_t end) {
    absl::Status status;
    if (done < begin) status = add(done, begin, false);
    if (status.ok()) status = add(begin, end, true);
    done = end;
    return status;
  };
  if (const auto* pattern = std::get_if<TextPattern>(&split.at)) {
    MNEMON_RETURN_IF_ERROR(ForMatches(*pattern, text, match));
  } else {
    const auto& characters = std::get<Characters>(split.at);
    for (size_t next = 0; next < text.size();) {
      const size_t begin = next;
      char32_t character = 0;
      if (!NextCodePoint(text, next, character)) break;
      const bool matches = character < characters.ascii.size()
                               ? characters.ascii[character]
                               : IsIn(characters.of, character);
      if (matches) MNEMON_RETURN_IF_ERROR(match(begin, next));
    }
  }
  if (done < text.size()) MNEMON_RETURN_IF_ERROR(add(done, text.size(), false));
  return first < last ? part(first, last) : absl::OkStatus();
}

absl::Status PreTokenizer::CutFrom(size_t step, const TextPiece& piece,
                                   Each each) const {
  if (step == steps_.size()) {
    if (!piece.text.empty()) each(piece.text);
    return absl::OkStatus();
  }
  if (const auto* split = std::get_if<Split>(&steps_[step])) {
    return Apply(*split, piece.text, [&](size_t begin, size_t end) {
      return CutFrom(step + 1,
                     {piece.text.substr(begin, end - begin), piece.first && begin == 0},
                     each);
    });
  }
  std::string changed;
  if (const auto* prepend = std::get_if<Prepend>(&steps_[step])) {
    const bool wanted = piece.first || !prepend->first_alone;
    if (!wanted || piece.text.starts_with(prepend->text)) {
      return CutFrom(step + 1, piece, each);
    }
    changed = StrCat(prepend->text, piece.text);
  } else {
    const auto& replace = std::get<Replace>(steps_[step]);
    for (size_t at = 0;;) {
      const size_t found = piece.text.find(replace.from, at);
      changed += piece.text.substr(at, found - at);
      if (found == piece.text.npos) break;
      changed += replace.to;
      at = found + replace.from.size();
    }
  }
  return CutFrom(step + 1, {changed, piece.first}, each);
}

}  // namespace mnemon
