// SPDX-License-Identifier: MIT
// The methods of Engine that use no session.
#include <new>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/detokenizer.h"
#include "server/engine/engine.h"
#include "server/engine/engine_parts.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"

namespace mnemon {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 19;
constexpr size_t kMostDetokenized = 1000000;
// The answer holds these bytes, and up to three times as many as text.
constexpr size_t kMaxRawBytes = size_t{1} << 20;

// What one answer of Predict may hold: a client takes messages of 4 MiB unless it was
// made otherwise.
constexpr int64_t kMaxFloats = (int64_t{4} << 20) / sizeof(float) - 1024;

absl::Status CheckCost(const PredictCost& cost, const EngineOptions& options) {
  if (cost.multiply_adds <= options.predict.multiply_adds &&
      cost.peak_bytes <= options.predict.bytes) {
    return absl::OkStatus();
  }
  return InvalidField(
      "tokens",
      StrCat("the prediction takes ", cost.multiply_adds, " multiply-adds and ",
             cost.peak_bytes, " bytes, at most ", options.predict.multiply_adds,
             " and ", options.predict.bytes, ": send fewer or shorter sequences"));
}

// Heads of all blocks of attention.
int64_t HeadsOf(const ModelDescription& model) {
  int64_t heads = 0;
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* found = std::get_if<Attention>(&sub.block)) heads += found->heads;
    }
  }
  return heads;
}

absl::Status CheckAnswer(int64_t tokens, const Predictor::Input& input,
                         const ModelDescription& model) {
  const int64_t time = tokens / input.batch;
  // Each factor was checked before, so no product overflows.
  int64_t floats = tokens * model.vocab;
  if (input.maps != AttentionMaps::kNone) floats += HeadsOf(model) * tokens * time;
  if (floats <= kMaxFloats) return absl::OkStatus();
  return InvalidField(
      "tokens", StrCat("the answer would hold ", floats, " numbers, at most ",
                       kMaxFloats, " fit into one message: send fewer sequences"));
}

}  // namespace

absl::StatusOr<TokenizedText> Engine::Tokenize(const std::string& model,
                                               const std::string& text) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, parts_->models.Find(model));
  const Tokenizer* const tokenizer = parts_->models.model(index).tokenizer;
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
  MNEMON_ASSIGN_OR_RETURN(const size_t index, parts_->models.Find(model));
  const Tokenizer* const tokenizer = parts_->models.model(index).tokenizer;
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

absl::StatusOr<std::function<void()>> Engine::Predict(PredictRequest request,
                                                      OnPredicted on_done) try {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, parts_->models.Find(request.model));
  const std::shared_ptr<PredictRunner>& runner =
      parts_->models.runners()[index].predictor;
  if (!runner) {
    return engine_errors::WrongKind(parts_->models.model(index).facts.name,
                                    "generates: use Generate");
  }
  const Predictor& predictor = *runner->model().predictor;
  Predictor::Input input{.tokens = std::move(request.tokens),
                         .batch = request.batch,
                         .mask = request.mask,
                         .explicit_mask = std::move(request.explicit_mask),
                         .maps = request.maps};
  MNEMON_RETURN_IF_ERROR(
      CheckPredict(input, predictor.model().vocab, predictor.max_positions()));
  const auto tokens = static_cast<int64_t>(input.tokens.size());
  MNEMON_RETURN_IF_ERROR(CheckAnswer(tokens, input, predictor.model()));
  const PredictCost cost = predictor.Cost(input);
  MNEMON_RETURN_IF_ERROR(CheckCost(cost, parts_->context->options));
  const auto job = std::make_shared<PredictJob>(
      std::move(input), cost, request.deadline, std::move(on_done),
      ChargeOf(parts_->context->memory, &EngineMemory::predictions));
  // Before the job is queued: from then on it is on_done that gets errors.
  std::function<void()> cancel = [weak = std::weak_ptr(runner), job] {
    if (const auto running = weak.lock()) running->Cancel(job);
  };
  MNEMON_RETURN_IF_ERROR(runner->Enqueue(job));
  return cancel;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

}  // namespace mnemon
