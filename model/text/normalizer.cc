// SPDX-License-Identifier: MIT
#include "model/text/normalizer.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace mnemon {
namespace {

std::string WithoutAccents(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    char32_t character = 0;
    if (!NextCodePoint(text, at, character)) break;
    if (IsIn(CharacterClass::kAccent, character)) continue;
    out += text.substr(begin, at - begin);
  }
  return out;
}

}  // namespace

absl::StatusOr<TextPattern> ReadPattern(TokenizerPart& part) {
  const nlohmann::json* pattern = part.Find("pattern");
  if (pattern != nullptr && pattern->is_object() && pattern->size() == 1) {
    const auto only = pattern->begin();
    const std::string& kind = only.key();
    const nlohmann::json& text = only.value();
    if (text.is_string() && kind == "String") {
      return TextPattern(text.get<std::string>());
    }
    if (text.is_string() && kind == "Regex") {
      absl::StatusOr<Pattern> compiled = Pattern::Compile(text.get<std::string>());
      if (compiled.ok()) return TextPattern(*std::move(compiled));
      return Annotated(compiled.status(), StrCat("tokenizer.json: ", part.path()));
    }
  }
  part.Refuse("needs a pattern, {\"String\": ..} or {\"Regex\": ..}");
  return part.status();
}

absl::StatusOr<Normalizer> Normalizer::Parse(const nlohmann::json& json) {
  Normalizer normalizer;
  if (json.is_null()) return normalizer;
  MNEMON_RETURN_IF_ERROR(normalizer.Add(TokenizerPart(json, "normalizer"), 0));
  return normalizer;
}

absl::Status Normalizer::Add(TokenizerPart part, int depth) {
  const std::string type = part.type();
  if (type == "Sequence") {
    if (depth == kMostNested) part.Refuse("is nested too deeply");
    for (TokenizerPart& item : part.Items("normalizers")) {
      MNEMON_RETURN_IF_ERROR(Add(std::move(item), depth + 1));
    }
  } else if (type == "NFC") {
    steps_.emplace_back(NormalForm::kC);
  } else if (type == "NFD") {
    steps_.emplace_back(NormalForm::kD);
  } else if (type == "NFKC") {
    steps_.emplace_back(NormalForm::kKC);
  } else if (type == "NFKD") {
    steps_.emplace_back(NormalForm::kKD);
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lower{});
  } else if (type == "StripAccents") {
    steps_.emplace_back(StripAccents{});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{part.Text("prepend")});
  } else if (type == "Strip") {
    steps_.emplace_back(
        Strip{part.Flag("strip_left", true), part.Flag("strip_right", true)});
  } else if (type == "Replace") {
    MNEMON_ASSIGN_OR_RETURN(TextPattern pattern, ReadPattern(part));
    steps_.emplace_back(Replace{std::move(pattern), part.Text("content")});
  } else {
    part.Refuse(StrCat("is of type ", Quoted(type),
                       ", supported: Lowercase, NFC, NFD, NFKC, NFKD, Prepend, "
                       "Replace, Sequence, Strip, StripAccents"));
  }
  return part.status();
}

absl::StatusOr<std::string> Normalizer::Apply(const Step& step, std::string text) {
  if (const auto* form = std::get_if<NormalForm>(&step)) {
    return Normalised(*form, text);
  }
  if (std::holds_alternative<Lower>(step)) return LowerCase(text);
  if (std::holds_alternative<StripAccents>(step)) return WithoutAccents(text);
  if (const auto* prepend = std::get_if<Prepend>(&step)) {
    return text.empty() ? text : prepend->text + text;
  }
  if (const auto* replace = std::get_if<Replace>(&step)) {
    std::string out;
    size_t done = 0;
    MNEMON_RETURN_IF_ERROR(
        ForMatches(replace->pattern, text, [&](size_t begin, size_t end) {
          out.append(text, done, begin - done).append(replace->content);
          done = end;
          return absl::OkStatus();
        }));
    return out.append(text, done);
  }
  const Strip& strip = std::get<Strip>(step);
  size_t first = 0, last = 0;  // range that stays
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    char32_t character = 0;
    if (!NextCodePoint(text, at, character)) break;
    if (IsIn(CharacterClass::kWhite, character)) continue;
    if (!any) first = begin;
    any = true;
    last = at;
  }
  if (!strip.left) first = 0;
  if (!strip.right) last = text.size();
  return first < last ? text.substr(first, last - first) : std::string();
}

absl::StatusOr<std::string> Normalizer::Apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    MNEMON_ASSIGN_OR_RETURN(out, Apply(step, std::move(out)));
  }
  return out;
}

}  // namespace mnemon
