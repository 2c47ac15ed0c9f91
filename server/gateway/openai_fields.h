// SPDX-License-Identifier: MIT
// What the calls in the form of OpenAI's API have in common: fields of requests, token
// texts, reasons and counts of answers, and the choices of completions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mnemon/v1/generation.pb.h"
#include "nlohmann/json.hpp"
#include "server/engine/engine.h"
#include "server/gateway/api_json.h"
#include "server/gateway/generation_job.h"

namespace mnemon {

// Reads the model, sampling, and stops. Beside OpenAI's fields: top_k, min_p,
// typical_p, repetition_penalty, penalty_window_tokens and stop_token_ids. An absent
// seed is drawn with 53 bits, which JSON numbers hold everywhere.
void ReadGeneration(JsonFields& fields, v1::GenerateRequest& request);

// Whether the answer is a stream that ends with the usage, by stream_options; absent:
// it is not a stream.
std::optional<bool> ReadStream(JsonFields& fields);

// Returns the Prompt.conversation of the request `body`, whose member `field` holds the
// messages, or the text of one message of a user. `instructions`, unless empty, come
// first, as a message of the system. Keys keep the order of the body.
std::string ReadConversation(JsonFields& fields, const std::string& body,
                             const std::string& field,
                             const std::string& instructions = "");

// An error of Generate with the names of OpenAI's fields. `field`: that of the prompt,
// if ReadConversation made it, with `before` messages that are not from there.
absl::Status InOpenAiTerms(const absl::Status& status, const std::string& field = "",
                           int before = 0);

// "stop" or "length".
std::string FinishReasonOf(const v1::FinishFacts& finish);

// The bytes and the text of one token; "token_id:5" if the model has no tokenizer.
DetokenizedText TextOfToken(const Engine& engine, const std::string& model,
                            int32_t token);

// "models/a" without "models/".
std::string ModelName(const std::string& resource);

// A completion or a chat completion: n choices for each prompt, all at once.
class ChoicesJob : public GenerationJob {
 protected:
  // `object` and `chunk`: the types of an answer and of an event.
  ChoicesJob(ApiStart start, const char* id_prefix, const char* object,
             const char* chunk);

  // Takes stream, stream_options.include_usage and n.
  void ReadChoices(JsonFields& fields);
  int64_t copies() const { return copies_; }
  // Adds n requests, whose seeds count up from that of `request`, wrapping around.
  void AddChoices(v1::GenerateRequest request);
  // Counts the tokens of a message; true: it ends its choice.
  bool Count(size_t index, const v1::GenerateResponse& message);
  // The event of a choice, which gets its index, and its end if it has `ended`.
  std::string ChoiceEvent(size_t index, nlohmann::json choice, bool ended) const;
  // A choice of an answer that is not a stream, without index and end.
  virtual nlohmann::json Choice(size_t index) const = 0;

  std::string model_;

 private:
  std::string LastEvents() final;
  nlohmann::json Whole() final;
  void AddEnd(size_t index, bool ended, nlohmann::json& choice) const;
  nlohmann::json Body(const char* type, nlohmann::json choices) const;
  nlohmann::json Usage() const;

  const std::string id_;
  const char* const object_;
  const char* const chunk_;
  const int64_t created_;
  bool stream_usage_ = false;
  int64_t copies_ = 1;
  int64_t prompt_tokens_ = 0;
  int64_t generated_tokens_ = 0;
  std::vector<v1::FinishFacts> ends_;  // by choice
};

}  // namespace mnemon
