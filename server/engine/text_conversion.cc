// SPDX-License-Identifier: MIT
#include "server/engine/text_conversion.h"

#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/detokenizer.h"
#include "server/requests/request_check.h"

namespace mnemon {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 19;
constexpr size_t kMostDetokenized = 1000000;
// The answer holds these bytes, and up to three times as many as text.
constexpr size_t kMaxRawBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<TokenizedText> TextToTokens(const Tokenizer* tokenizer,
                                           const std::string& text) {
  if (!tokenizer) return NeedsTokenizer("text");
  if (text.size() > kMaxTextBytes) {
    return InvalidField("text", StrCat("the text has ", text.size(), " bytes, at most ",
                                       kMaxTextBytes, " are taken in one call"));
  }
  auto tokens = tokenizer->Encode(text);
  if (!tokens.ok()) return OfField(tokens.status(), "text");
  TokenizedText result{.tokens = *std::move(tokens), .byte_offsets = {}};
  int64_t offset = 0;
  for (const int32_t token : result.tokens) {
    result.byte_offsets.push_back(offset);
    offset += static_cast<int64_t>(tokenizer->TokenBytes(token).size());
  }
  return result;
}

absl::StatusOr<DetokenizedText> TokensToText(const Tokenizer* tokenizer,
                                             const std::vector<int32_t>& tokens) {
  if (!tokenizer) return NeedsTokenizer("tokens");
  if (tokens.size() > kMostDetokenized) {
    return InvalidField("tokens", StrCat(tokens.size(), " tokens, at most ",
                                         kMostDetokenized, " are taken in one call"));
  }
  DetokenizedText result;
  for (size_t i = 0; i < tokens.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(CheckToken(tokens[i], i, "tokens", tokenizer->size()));
    result.raw += tokenizer->TokenBytes(tokens[i]);
    if (result.raw.size() > kMaxRawBytes) {
      return InvalidField("tokens", StrCat("the tokens have more than ", kMaxRawBytes,
                                           " bytes of text"));
    }
  }
  Utf8Stream utf8;
  result.text = utf8.Push(result.raw);
  result.text += utf8.Finish();
  return result;
}

void AddText(const Tokenizer& tokenizer, HistoryPart& part) {
  Utf8Stream utf8;
  for (const int32_t token : part.tokens) {
    part.byte_offsets.push_back(static_cast<int64_t>(part.text.size()));
    part.text += utf8.Push(tokenizer.TokenBytes(token));
  }
  part.text += utf8.Finish();
}

}  // namespace mnemon
