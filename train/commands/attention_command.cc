// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/decoder/decoder.h"
#include "model/program/make_decoder.h"
#include "model/sequence/load.h"
#include "train/commands/commands.h"
#include "train/commands/compute_flags.h"
#include "train/report/attention_picture.h"

namespace mnemon {
namespace {

// Cells of a larger map could not be distinguished.
constexpr int64_t kMostTokens = 512;

struct AttentionFlags {
  std::string checkpoint;
  std::vector<int32_t> tokens;
  std::string out;
  std::string maps = "used";
  std::string mask = "config";
  ComputeFlags compute;
};

PredictMask ReadMask(const std::string& name) {
  if (name == "none") return PredictMask::kNone;
  return name == "config" ? PredictMask::kConfig : PredictMask::kCausal;
}

absl::Status RunAttention(const AttentionFlags& flags, const Compute& compute) {
  if (static_cast<int64_t>(flags.tokens.size()) > kMostTokens) {
    return UsageError(StrCat("--tokens has ", flags.tokens.size(),
                             " ids, a picture shows at most ", kMostTokens));
  }
  MNEMON_ASSIGN_OR_RETURN(const ServedModel loaded,
                          LoadStepForm(flags.checkpoint, compute.device,
                                       compute.decoder, compute.max_context));
  MNEMON_RETURN_IF_ERROR(RequireWholeSequences(loaded.description));
  const Attention* attention = FirstBlock<Attention>(loaded.description);
  if (attention == nullptr) {
    return absl::InvalidArgumentError("the model has no attention to draw");
  }
  const bool used = flags.maps == "used";
  MNEMON_ASSIGN_OR_RETURN(
      const Predictor::Output output,
      loaded.predictor->Predict(
          {.tokens = flags.tokens,
           .batch = 1,
           .mask = ReadMask(flags.mask),
           .explicit_mask = {},
           .maps = used ? AttentionMaps::kUsed : AttentionMaps::kNotebook}));
  return WriteFileDurably(
      flags.out,
      DrawAttention({.tokens = flags.tokens,
                     .heads = attention->heads,
                     .maps = output.maps,
                     .title = used ? "Attention weights in use"
                                   : "Attention maps as the notebook computes them"}));
}

}  // namespace

void AddAttentionCommand(CommandLine& line) {
  auto flags = std::make_shared<AttentionFlags>();
  Command command = line.AddCommand(
      "attention", "Draws what each position of a sequence attends to in an encoder.",
      {"mnemon-train attention --checkpoint run/best --tokens 5,8,0,9,0,9 --out "
       "maps.svg",
       "mnemon-train attention --checkpoint run/best --tokens 5,8,0,9,0,9 --maps "
       "notebook --out maps.svg"},
      [flags] {
        return RunComputing(flags->compute, [&](const Compute& compute) {
          return RunAttention(*flags, compute);
        });
      });
  command.Add("--checkpoint", &flags->checkpoint, "Checkpoint directory").Required();
  command.Add("--tokens", &flags->tokens, "Token ids of the sequence, with commas")
      .WithCommas()
      .Required();
  command.Add("--out", &flags->out, "SVG file to write").Required();
  command
      .Add("--maps", &flags->maps,
           "used: the weights that made the logits; notebook: from the input of each "
           "block before its norm")
      .OneOf({"used", "notebook"});
  command
      .Add("--mask", &flags->mask,
           "config: that of the model; none: every position sees all; causal: those up "
           "to itself")
      .OneOf({"config", "none", "causal"});
  AddComputeFlags(command, flags->compute);
}

}  // namespace mnemon
