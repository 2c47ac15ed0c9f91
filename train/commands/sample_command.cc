// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/process/standard_output.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "model/compute/kernels.h"
#include "model/program/make_decoder.h"
#include "model/sampling/sampler.h"
#include "model/sequence/load.h"
#include "model/text/detokenizer.h"
#include "train/commands/commands.h"
#include "train/commands/compute_flags.h"
#include "train/commands/unknown_characters.h"

namespace mnemon {
namespace {

struct SampleFlags {
  std::string checkpoint;
  std::string prompt;
  std::vector<int64_t> prompt_tokens;
  int64_t tokens = 0;
  std::optional<uint64_t> seed;
  // Parameters that are not given are the model's.
  std::optional<double> temperature, top_p, min_p, typical_p, repetition_penalty;
  std::optional<int32_t> top_k;
  RequestedSampling penalties;
  bool ids = false;
  bool ignore_end = false;
  std::string unknown_characters;
  ComputeFlags compute;
};

// Prints tokens as they come: as text, or as ids with commas.
class Printer {
 public:
  explicit Printer(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  absl::Status Print(int32_t token) {
    if (tokenizer_ != nullptr) {
      if (tokenizer_->special(token)) return absl::OkStatus();
      return WriteStandardOutput(text_.Push(tokenizer_->TokenBytes(token)));
    }
    return WriteStandardOutput(StrCat(std::exchange(first_, false) ? "" : ",", token));
  }
  absl::Status Finish() { return WriteStandardOutput(text_.Finish() + "\n"); }

 private:
  const Tokenizer* tokenizer_;  // null: ids
  Utf8Stream text_;
  bool first_ = true;
};

absl::StatusOr<std::vector<int32_t>> ReadPrompt(const SampleFlags& flags,
                                                const ServedModel& loaded) {
  if (flags.prompt_tokens.empty()) {
    if (loaded.tokenizer == nullptr) {
      return UsageError(StrCat("--prompt: ", Quoted(flags.checkpoint),
                               " has no tokenizer.json: use --prompt-tokens"));
    }
    absl::StatusOr<std::vector<int32_t>> ids = loaded.tokenizer->EncodeWith(
        flags.prompt, UnknownCharactersOf(flags.unknown_characters));
    if (!ids.ok()) return Annotated(ids.status(), "--prompt");
    const auto before = loaded.tokenizer->before_text();
    ids->insert(ids->begin(), before.begin(), before.end());
    if (!ids->empty()) return ids;
    return absl::InvalidArgumentError(
        StrCat("--prompt: all of its characters are unknown and left out; the model "
               "knows ",
               loaded.tokenizer->Describe()));
  }
  std::vector<int32_t> ids;
  for (const int64_t id : flags.prompt_tokens) {
    if (id < 0 || id >= loaded.description.vocab) {
      return absl::InvalidArgumentError(
          StrCat("--prompt-tokens: token ", id, " at index ", ids.size(),
                 " is not in 0..", loaded.description.vocab - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

absl::Status CheckPrompt(const SampleFlags& flags) {
  if (flags.prompt.empty() != flags.prompt_tokens.empty()) return absl::OkStatus();
  return UsageError(
      "give --prompt TEXT or --prompt-tokens IDS, one of them and not empty: a "
      "model continues from at least one token");
}

RequestedSampling Merge(const SampleFlags& flags, const RequestedSampling& model) {
  RequestedSampling sampling = flags.penalties;
  sampling.temperature = flags.temperature.value_or(model.temperature);
  sampling.top_k = flags.top_k.value_or(model.top_k);
  sampling.top_p = flags.top_p.value_or(model.top_p);
  sampling.min_p = flags.min_p.value_or(model.min_p);
  sampling.typical_p = flags.typical_p.value_or(model.typical_p);
  sampling.repetition_penalty =
      flags.repetition_penalty.value_or(model.repetition_penalty);
  return sampling;
}

absl::Status CheckSampling(const RequestedSampling& sampling) {
  const absl::Status valid = ValidateSampling(sampling, INT32_MAX);
  if (valid.ok()) return valid;
  const std::optional<ErrorDetail> detail = GetErrorDetail(valid);
  std::string field = detail ? detail->field : "";
  std::replace(field.begin(), field.end(), '_', '-');
  return UsageError(StrCat("--", field, ": ", std::string(valid.message())));
}

// Computes `tokens` in pieces; `logits` are those of the last one.
absl::Status Feed(Decoder& decoder, StateArena& arena, int32_t slot,
                  std::span<const int32_t> tokens, std::vector<float>& logits) {
  while (!tokens.empty()) {
    const size_t count = std::min(tokens.size(), size_t{kMaxChunk});
    const Segment segment = {
        .slot = slot,
        .position = arena.length(slot),
        .tokens = tokens.first(count),
        .logits = count == tokens.size() ? LogitsMode::kLast : LogitsMode::kNone};
    MNEMON_RETURN_IF_ERROR(decoder.Step({&segment, 1}, arena, logits.data()));
    arena.SetFloor(slot, arena.length(slot));
    tokens = tokens.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status Continue(const SampleFlags& flags, const SamplingParams& sampling,
                      std::string_view target, const ServedModel& loaded,
                      const std::vector<int32_t>& prompt) {
  Decoder* const decoder = loaded.decoder.get();
  MNEMON_ASSIGN_OR_RETURN(
      const std::unique_ptr<StateArena> arena,
      StateArena::Create(decoder->spec(),
                         {.slots = 1, .memory = decoder->MakeStateMemory()}));
  MNEMON_ASSIGN_OR_RETURN(const int32_t slot, arena->Acquire());
  std::vector<float> logits(static_cast<size_t>(loaded.description.vocab));
  MNEMON_RETURN_IF_ERROR(Feed(*decoder, *arena, slot, prompt, logits));

  const std::vector<int32_t>& ends = loaded.generation.end_tokens;
  const bool stops = !flags.ignore_end && flags.prompt_tokens.empty();
  const bool as_ids = flags.ids || !flags.prompt_tokens.empty();
  Printer printer(as_ids ? nullptr : loaded.tokenizer.get());
  SamplerScratch scratch{.operations = &SamplingOperationsOf(target)};
  PenaltyCounts penalties(sampling, loaded.description.vocab);
  std::vector<int32_t> history = prompt;
  for (int64_t sampled = 0; sampled < flags.tokens; ++sampled) {
    penalties.Update(history);
    MNEMON_ASSIGN_OR_RETURN(
        const int32_t token,
        Sample(logits, sampling, arena->length(slot), scratch, penalties.counts()));
    history.push_back(token);
    MNEMON_RETURN_IF_ERROR(printer.Print(token));
    if (sampled + 1 == flags.tokens) break;
    if (stops && std::ranges::binary_search(ends, token)) break;
    if (arena->length(slot) >= decoder->spec().max_positions()) {
      MNEMON_RETURN_IF_ERROR(printer.Finish());
      std::fprintf(stderr, "note: stopped at the context limit of %lld tokens\n",
                   static_cast<long long>(decoder->spec().max_positions()));
      return absl::OkStatus();
    }
    MNEMON_RETURN_IF_ERROR(Feed(*decoder, *arena, slot, {&token, 1}, logits));
  }
  return printer.Finish();
}

absl::Status RunSample(const SampleFlags& flags, const Compute& compute) {
  MNEMON_RETURN_IF_ERROR(CheckPrompt(flags));
  MNEMON_RETURN_IF_ERROR(CheckSampling(Merge(flags, {})));
  MNEMON_ASSIGN_OR_RETURN(const ServedModel loaded,
                          LoadStepForm(flags.checkpoint, compute.device,
                                       compute.decoder, compute.max_context));
  MNEMON_RETURN_IF_ERROR(RequireAutoregressive(loaded.description));
  MNEMON_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, ReadPrompt(flags, loaded));
  SamplingParams sampling = Rounded(Merge(flags, loaded.generation.sampling));
  if (flags.seed) {
    sampling.seed = *flags.seed;
  } else if (sampling.temperature > 0) {
    std::random_device random;
    sampling.seed = uint64_t{random()} << 32 | random();
    std::fprintf(stderr, "seed: %llu\n",
                 static_cast<unsigned long long>(sampling.seed));
  }
  return Continue(flags, sampling, compute.decoder.target, loaded, prompt);
}

}  // namespace

void AddSampleCommand(CommandLine& line) {
  auto flags = std::make_shared<SampleFlags>();
  Command command = line.AddCommand(
      "sample", "Continues a prompt, as the server would.",
      {"mnemon-train sample --checkpoint run/best --prompt 'It is ' --tokens 200",
       "mnemon-train sample --checkpoint run/best --prompt 'It is ' --tokens 200 "
       "--temperature 0",
       "mnemon-train sample --checkpoint run/best --prompt-tokens 1,2,3 --tokens 20 "
       "--seed 7"},
      [flags] {
        return RunComputing(flags->compute, [&](const Compute& compute) {
          return RunSample(*flags, compute);
        });
      });
  command.Add("--checkpoint", &flags->checkpoint, "Checkpoint directory").Required();
  command.Add("--prompt", &flags->prompt, "Text to continue").Default("no text");
  command
      .Add("--prompt-tokens", &flags->prompt_tokens,
           "Token ids to continue, with commas: 1,2,3; prints ids")
      .WithCommas()
      .Default("no ids");
  command
      .Add("--max-tokens,--tokens", &flags->tokens,
           "Tokens to generate at most, under either name")
      .Required()
      .Between(0, INT32_MAX);
  command.Add("--seed", &flags->seed, "Same seed, same text")
      .Default("drawn and printed");
  command
      .Add("--temperature", &flags->temperature,
           "Flattens the distribution above 1, sharpens it below; 0 = greedy")
      .Default("the model's, else 1");
  command.Add("--top-k", &flags->top_k, "Keep the k most likely tokens; 0 = all")
      .Default("the model's, else 0");
  command
      .Add("--top-p", &flags->top_p,
           "Keep the smallest set of tokens of this probability")
      .Default("the model's, else 1");
  command
      .Add("--min-p", &flags->min_p,
           "Keep tokens at least this share as likely as the most likely one")
      .Default("the model's, else 0");
  command
      .Add("--typical-p", &flags->typical_p, "Locally typical sampling: keep this mass")
      .Default("the model's, else 1");
  command
      .Add("--repetition-penalty", &flags->repetition_penalty,
           "Divides logits of tokens in the penalty window; 1 = off")
      .Default("the model's, else 1");
  command.Add("--frequency-penalty", &flags->penalties.frequency_penalty,
              "Subtracted per occurrence in the penalty window");
  command.Add("--presence-penalty", &flags->penalties.presence_penalty,
              "Subtracted for any occurrence in the penalty window");
  command.Add(
      "--penalty-window-tokens", &flags->penalties.penalty_window_tokens,
      "The penalty window: so many of the newest tokens, the prompt's included");
  command.Add("--ids", &flags->ids, "Print token ids instead of text");
  command.Add("--ignore-eos", &flags->ignore_end,
              "Go on after the model's own end token, as with --prompt-tokens");
  AddUnknownCharactersFlag(command, flags->unknown_characters);
  AddStepComputeFlags(command, flags->compute);
}

}  // namespace mnemon
