// SPDX-License-Identifier: MIT
// The messages of one generation, made of what its stream gives.
#pragma once

#include <cstdint>
#include <string>

#include "mnemon/v1/generation.pb.h"
#include "server/service/call_progress.h"
#include "server/service/messages/messages.h"
#include "server/streams/token_stream.h"

namespace mnemon {

// Used by one thread at a time.
class GenerationOutput {
 public:
  // Adds a chunk to `message`, and counts it in the progress of the call.
  void Fill(const TokenChunk& chunk, const std::string& session,
            const std::string& model, CallProgress& progress,
            v1::GenerateResponse& message) {
    ToMessage(chunk, session, model, message);
    if (chunk.start) {
      prompt_end_ = chunk.start->first_index + chunk.start->prompt_tokens;
      progress.SetQueueTime(chunk.start->queue_time);
      progress.AddPromptTokens(chunk.start->prompt_tokens);
    }
    progress.AddGeneratedTokens(static_cast<int64_t>(chunk.tokens.size()));
    if (chunk.finish) {
      message.mutable_finish()->set_token_count(prompt_end_ +
                                                chunk.finish->generated_tokens);
    }
  }

 private:
  int64_t prompt_end_ = 0;  // tokens of the history up to the end of the prompt
};

}  // namespace mnemon
