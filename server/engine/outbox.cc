// SPDX-License-Identifier: MIT
#include "server/engine/outbox.h"

#include <utility>

namespace mnemon {

void Outbox::Start(std::shared_ptr<TokenStream> stream, const StartFacts& facts) {
  messages_.push_back({std::move(stream), facts});
}

void Outbox::Push(std::shared_ptr<TokenStream> stream, int64_t index, int32_t token,
                  std::optional<TokenLogprobs> logprobs) {
  messages_.push_back({std::move(stream), Token{index, token, std::move(logprobs)}});
}

void Outbox::Finish(std::shared_ptr<TokenStream> stream, absl::Status status,
                    const std::optional<FinishFacts>& facts) {
  messages_.push_back({std::move(stream), End{std::move(status), facts}});
}

void Outbox::Send() {
  for (Message& message : messages_) {
    TokenStream& stream = *message.stream;
    if (auto* facts = std::get_if<StartFacts>(&message.what)) {
      stream.Start(*facts);
    } else if (auto* token = std::get_if<Token>(&message.what)) {
      stream.Push(token->index, token->token, std::move(token->logprobs));
    } else {
      End& end = std::get<End>(message.what);
      stream.Finish(std::move(end.status), end.facts);
    }
  }
  messages_.clear();
}

}  // namespace mnemon
