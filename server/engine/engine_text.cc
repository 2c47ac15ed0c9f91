// SPDX-License-Identifier: MIT
// The calls that convert text to tokens and back, without a model; also tokens of a
// history.
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/detokenizer.h"
#include "server/engine/engine.h"
#include "server/engine/request_check.h"

namespace mnemon {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 19;
constexpr size_t kMaxTokens = 1000000;
// The answer holds these bytes, and up to three times as many as text.
constexpr size_t kMaxRawBytes = size_t{1} << 20;

constexpr int32_t kDefaultPart = 1000;
constexpr int32_t kMostPart = 4096;

void AddText(const Tokenizer& tokenizer, HistoryPart& part) {
  Utf8Stream utf8;
  for (const int32_t token : part.tokens) {
    part.byte_offsets.push_back(static_cast<int64_t>(part.text.size()));
    part.text += utf8.Push(tokenizer.TokenBytes(token));
  }
  part.text += utf8.Finish();
}

}  // namespace

absl::Status Engine::ReadHistory(const ReadHistoryRequest& request,
                                 OnAnswer<HistoryPart> on_done) {
  return Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (request.tokens < 0) {
      return InvalidField("token_count", "token_count must not be negative");
    }
    RemoveExpired();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            FindSession(request.session));
    const int32_t tokens =
        std::min(request.tokens == 0 ? kDefaultPart : request.tokens, kMostPart);
    const Runner& runner = runners_[session->model];
    runner.decoder->Do(MakeReadTask(
        session, request.first, tokens,
        [tokenizer = runner.model().tokenizer,
         on_done = std::move(on_done)](absl::StatusOr<HistoryPart> part) {
          on_done(CatchOutOfMemory({}, [&]() -> absl::StatusOr<HistoryPart> {
            if (part.ok() && tokenizer != nullptr) AddText(*tokenizer, *part);
            return std::move(part);
          }));
        }));
    return absl::OkStatus();
  });
}

absl::StatusOr<TokenizedText> Engine::Tokenize(const std::string& model,
                                               const std::string& text) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, FindModel(model));
  const Tokenizer* const tokenizer = runners_[index].model().tokenizer;
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

absl::StatusOr<DetokenizedText> Engine::Detokenize(
    const std::string& model, const std::vector<int32_t>& tokens) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, FindModel(model));
  const Tokenizer* const tokenizer = runners_[index].model().tokenizer;
  if (!tokenizer) return NeedsTokenizer("tokens");
  if (tokens.size() > kMaxTokens) {
    return InvalidField("tokens", StrCat(tokens.size(), " tokens, at most ", kMaxTokens,
                                         " are taken in one call"));
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

}  // namespace mnemon
