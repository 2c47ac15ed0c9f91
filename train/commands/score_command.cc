// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "model/compute/kernels.h"
#include "model/io/safetensors.h"
#include "model/sequence/tensors.h"
#include "train/commands/commands.h"
#include "train/commands/compute_flags.h"
#include "train/commands/model_form.h"
#include "train/commands/row_feed.h"

namespace mnemon {
namespace {

struct ScoreFlags {
  std::string checkpoint;
  std::string tokens;
  std::string out;
  std::string form = "sequence";
  int64_t chunk = 0;  // 0 = whole segments, or as many as a step takes
  ComputeFlags compute;
};

struct ScoreInput {
  int64_t batch = 0;            // B
  int64_t length = 0;           // T
  std::vector<int64_t> tokens;  // [B, T]
  std::vector<int64_t> calls;   // lengths of the calls that cover T
  at::Tensor mask;              // ForwardOptions::mask
};

absl::Status CheckTokens(const TensorInfo& info, const std::vector<int64_t>& tokens,
                         int64_t vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    const int64_t length = info.shape[1];
    const int64_t at = static_cast<int64_t>(i);
    return absl::InvalidArgumentError(StrCat("tokens[", at / length, ", ", at % length,
                                             "] is ", tokens[i], ", not in 0..",
                                             vocab - 1));
  }
  return absl::OkStatus();
}

// The lengths in the file's `segments`, or all of T where they do not apply.
absl::StatusOr<std::vector<int64_t>> ReadSegments(const Safetensors& file,
                                                  int64_t length) {
  const TensorInfo* info = file.Find("segments");
  if (info == nullptr) return std::vector<int64_t>{length};
  MNEMON_ASSIGN_OR_RETURN(std::vector<int64_t> segments, file.Ints(*info));
  int64_t left = length;
  for (const int64_t segment : segments) {
    if (segment < 1 || segment > left) {
      return absl::InvalidArgumentError(
          StrCat("segments must be at least 1 and sum to the ", length,
                 " tokens of a row, found ", segment));
    }
    left -= segment;
  }
  if (info->shape.size() != 1 || left != 0) {
    return absl::InvalidArgumentError(StrCat(
        "segments must be a list that sums to the ", length, " tokens of a row, it is ",
        Describe(info->dtype, info->shape), " and leaves ", left));
  }
  return segments;
}

absl::StatusOr<ScoreInput> ReadInput(const Safetensors& file,
                                     const ModelDescription& model,
                                     const ScoreFlags& flags) {
  const TensorInfo* info = file.Find("tokens");
  if (info == nullptr) return absl::InvalidArgumentError("holds no array 'tokens'");
  if (info->dtype != DType::kI64 || info->shape.size() != 2 || info->elements() == 0) {
    return absl::InvalidArgumentError(
        StrCat("tokens must be I64 [B, T] with B and T of at least 1, found ",
               Describe(info->dtype, info->shape)));
  }
  ScoreInput input;
  input.batch = info->shape[0];
  input.length = info->shape[1];
  MNEMON_ASSIGN_OR_RETURN(input.tokens, file.Ints(*info));
  MNEMON_RETURN_IF_ERROR(CheckTokens(*info, input.tokens, model.vocab));
  std::vector<int64_t> segments = {input.length};
  const Attention* attention = FirstBlock<Attention>(model);
  const bool carries_inputs =
      attention != nullptr && attention->carries == Attention::Carries::kInputs;
  if (flags.form == "sequence" && carries_inputs) {
    MNEMON_ASSIGN_OR_RETURN(segments, ReadSegments(file, input.length));
  }
  const TensorInfo* mask = file.Find("mask");
  if (mask != nullptr && model.whole_sequences) {
    MNEMON_ASSIGN_OR_RETURN(input.mask, ToTensor(file, *mask));
  }
  int64_t most = flags.chunk;
  if (most == 0) most = flags.form == "step" ? kMaxChunk : input.length;
  for (int64_t left : segments) {
    for (; left > 0; left -= input.calls.back()) {
      input.calls.push_back(std::min(left, most));
    }
  }
  return input;
}

absl::Status Score(RowFeed& feed, ScoreInput& input, at::Tensor& logits) {
  const at::Tensor tokens =
      at::from_blob(input.tokens.data(), {input.batch, input.length}, at::kLong);
  const int64_t side_by_side = std::min(input.batch, feed.most_rows());
  for (int64_t first = 0; first < input.batch; first += side_by_side) {
    const int64_t rows = std::min(side_by_side, input.batch - first);
    MNEMON_RETURN_IF_ERROR(feed.Restart(rows));
    int64_t at = 0;
    for (const int64_t count : input.calls) {
      const auto piece = [&](const at::Tensor& all) {
        return all.narrow(0, first, rows).narrow(1, at, count);
      };
      MNEMON_ASSIGN_OR_RETURN(const at::Tensor found,
                              feed.Feed(piece(tokens).contiguous()));
      piece(logits).copy_(found);
      at += count;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RowFeed>> MakeFeed(ModelInForm& loaded,
                                                  const ScoreInput& input) {
  constexpr int64_t kSessions = 16;
  if (loaded.model != nullptr) return MakeSequenceFeed(*loaded.model, input.mask);
  return MakeStepFeed(std::move(loaded.decoder), std::min(input.batch, kSessions));
}

absl::Status CheckOutputFits(const ScoreInput& input, int64_t vocab) {
  int64_t bytes = sizeof(float);
  for (const int64_t size : {input.batch, input.length, vocab}) {
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > MaxSafetensorsFile()) {
      return absl::ResourceExhaustedError(
          StrCat("logits [", input.batch, ", ", input.length, ", ", vocab,
                 "] exceed the memory of this machine"));
    }
  }
  return absl::OkStatus();
}

absl::Status RunScore(const ScoreFlags& flags, const Compute& compute) {
  if (flags.form != "sequence" && flags.form != "step") {
    return UsageError(
        StrCat("--form ", Quoted(flags.form), " is not known: use sequence or step"));
  }
  if (flags.form == "step" && flags.chunk > kMaxChunk) {
    return UsageError(StrCat("--chunk ", flags.chunk, ": a step takes at most ",
                             kMaxChunk, " tokens of a session"));
  }
  MNEMON_ASSIGN_OR_RETURN(ModelInForm loaded,
                          LoadInForm(flags.checkpoint, flags.form, compute));
  if (loaded.description.whole_sequences && (flags.form == "step" || flags.chunk > 0)) {
    return UsageError(StrCat("architecture ", loaded.architecture,
                             " takes whole sequences: leave out --form step and "
                             "--chunk"));
  }
  MNEMON_ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Read(flags.tokens));
  absl::StatusOr<ScoreInput> input = ReadInput(file, loaded.description, flags);
  if (!input.ok()) return Annotated(input.status(), Quoted(flags.tokens));
  MNEMON_RETURN_IF_ERROR(CheckOutputFits(*input, loaded.description.vocab));

  at::Tensor logits =
      at::empty({input->batch, input->length, loaded.description.vocab}, at::kFloat);
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<RowFeed> feed,
                          MakeFeed(loaded, *input));
  MNEMON_RETURN_IF_ERROR(Score(*feed, *input, logits));
  const TensorToWrite tensor = {
      "logits",
      DType::kF32,
      logits.sizes().vec(),
      {static_cast<const char*>(logits.data_ptr()), logits.nbytes()}};
  MNEMON_ASSIGN_OR_RETURN(const std::string bytes, FormatSafetensors({&tensor, 1}));
  return WriteFileDurably(flags.out, bytes);
}

}  // namespace

void AddScoreCommand(CommandLine& line) {
  auto flags = std::make_shared<ScoreFlags>();
  Command command = line.AddCommand(
      "score", "Computes the logits of given tokens.",
      {"mnemon-train score --checkpoint run/best --tokens in.safetensors --out "
       "out.safetensors",
       "mnemon-train score --checkpoint run/best --tokens in.safetensors --out "
       "out.safetensors --form step --chunk 16"},
      [flags] {
        return RunComputing(flags->compute, [&](const Compute& compute) {
          return RunScore(*flags, compute);
        });
      });
  command.Add("--checkpoint", &flags->checkpoint, "Checkpoint directory").Required();
  command
      .Add("--tokens", &flags->tokens,
           "Safetensors file with `tokens` int64 [B, T]; for transformer_xl in "
           "sequence form also `segments` int64 [S], the lengths of its calls; for "
           "encoder also `mask`, [T, T], [B, T, T] or [B, H, T, T]: integers, non-zero "
           "= takes part, or floats, added to the scores")
      .Required();
  command
      .Add("--out", &flags->out,
           "Safetensors file to write: `logits` float32 [B, T, V]")
      .Required();
  command.Add("--form", &flags->form,
              "sequence (as in training) or step (as in serving)");
  command
      .Add("--chunk", &flags->chunk,
           "Tokens of a row per call, within segments; 0 = a whole segment, in "
           "step form 64")
      .Between(0, int64_t{1} << 31);
  AddStepComputeFlags(command, flags->compute);
}

}  // namespace mnemon
