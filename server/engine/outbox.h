// SPDX-License-Identifier: MIT
// What streams are to be told, gathered under the engine's mutex and told after it was
// released: no callback runs under a lock.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/token_stream.h"

namespace mnemon {

// Owned by one thread; keeps its memory between rounds.
class Outbox {
 public:
  // Streams are shared because a call may be gone when its last word is sent.
  void Start(std::shared_ptr<TokenStream> stream, const StartFacts& facts);
  void Push(std::shared_ptr<TokenStream> stream, int64_t index, int32_t token,
            std::optional<TokenLogprobs> logprobs);
  void Finish(std::shared_ptr<TokenStream> stream, absl::Status status,
              const std::optional<FinishFacts>& facts = std::nullopt);

  bool empty() const { return messages_.empty(); }
  // In the order of the calls above. REQUIRES: no lock is held.
  void Send();

 private:
  struct Token {
    int64_t index;
    int32_t token;
    std::optional<TokenLogprobs> logprobs;
  };
  struct End {
    absl::Status status;
    std::optional<FinishFacts> facts;
  };
  struct Message {
    std::shared_ptr<TokenStream> stream;
    std::variant<StartFacts, Token, End> what;
  };
  std::vector<Message> messages_;
};

}  // namespace mnemon
