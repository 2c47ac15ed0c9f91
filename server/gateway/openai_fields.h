// SPDX-License-Identifier: MIT
// What the calls in the form of OpenAI's API have in common: fields of requests, and
// token texts, reasons and counts of answers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "mnemon/v1/generation.pb.h"
#include "nlohmann/json.hpp"
#include "server/engine/engine.h"
#include "server/gateway/json_fields.h"

namespace mnemon {

// The model, how tokens are drawn, and stop strings. Beside OpenAI's fields top_k,
// min_p, typical_p, repetition_penalty, penalty_window_tokens and stop_token_ids. A
// seed that is absent is drawn: 53 bits, which JSON numbers hold everywhere.
void ReadGeneration(JsonFields& fields, v1::GenerateRequest& request);

// The request of choice `i` of several: with the seed `i` behind that of the request,
// where the greatest one is followed by the smallest.
v1::GenerateRequest ChoiceOf(const v1::GenerateRequest& request, int64_t i);

// {"stream": ..., "stream_options": {"include_usage": ...}}
struct StreamFields {
  bool stream = false;
  bool usage = false;
};
StreamFields ReadStream(JsonFields& fields);

// Prompt.conversation of a request with the text `body`, whose member `field` holds the
// messages, or one of a user as a string; before them comes `instructions`, of the
// system, unless it is empty. Keys keep the order of the body. Takes the members.
std::string ReadConversation(JsonFields& fields, const std::string& body,
                             const std::string& field,
                             const std::string& instructions = "");

// An error of Generate with the names of OpenAI's fields in place of its own.
absl::Status InOpenAiTerms(const absl::Status& status);
// The same where the prompt is such a conversation. `before`: its messages that are not
// of the member `field`.
absl::Status InOpenAiTerms(const absl::Status& status, const std::string& field,
                           int before);

// "stop" or "length".
std::string FinishReasonOf(const v1::FinishFacts& finish);
// The string or the token id that stopped it; null: none did.
nlohmann::json StopReasonOf(const v1::FinishFacts& finish);

struct UsageCount {
  int64_t prompt = 0;
  int64_t generated = 0;
};
// Of completions and chat.
nlohmann::json UsageJson(const UsageCount& usage);

// Texts and bytes of single tokens of a model, "token_id:5" where it has no tokenizer.
class TokenTexts {
 public:
  // `engine` outlives it.
  TokenTexts(const Engine& engine, std::string model)
      : engine_(engine), model_(std::move(model)) {}
  std::string Bytes(int32_t token) const;
  // The bytes with U+FFFD for what is not UTF-8.
  std::string Text(int32_t token) const;

 private:
  const Engine& engine_;
  std::string model_;
};

// Since 1970.
int64_t NowSeconds();

// "models/a" without "models/".
std::string ModelName(const std::string& resource);

}  // namespace mnemon
