// SPDX-License-Identifier: MIT
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bench/figures/spread.h"
#include "bench/kernels/commands.h"
#include "bench/kernels/measurement.h"
#include "bench/kernels/stream_round.h"
#include "server/engine/engine.h"

namespace mnemon {
namespace {

struct EngineFlags : BenchFlags {
  int64_t tokens = 32;
};

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const BenchModel& model,
                                                   const DecoderOptions& decoder,
                                                   const EngineFlags& flags) {
  ModelFacts facts{.name = "default",
                   .architecture = model.config().architecture,
                   .vocab = model.config().vocab};
  const int64_t limit = model.decoder().spec().max_positions();
  if (limit != StateSpec::kUnlimited) facts.context_limit = limit;
  return Engine::Create({{.facts = facts, .decoder = &model.decoder()}},
                        {.running = static_cast<int32_t>(flags.batch),
                         .max_queue = static_cast<int32_t>(flags.batch),
                         .state_bytes = int64_t{16} << 30,
                         .pool = decoder.pool,
                         .sampling = &SamplingOperationsOf(decoder.target)});
}

// Rounds of streams, as many at once as there are sessions.
class EngineSubject : public Subject {
 public:
  EngineSubject(const BenchModel& model, const EngineFlags& flags,
                const Compute& compute, std::unique_ptr<Engine> engine)
      : model_(model),
        flags_(flags),
        engine_(std::move(engine)),
        rounds_(flags.seconds),
        pool_(compute.decoder.pool->count()),
        burst_(compute.on_host() ? &pool_ : nullptr, model.format()) {}

  int64_t working_set() const override {
    return WorkingSet(MiddleStep(), flags_.batch);
  }
  bool done() const override { return rounds_.done(); }
  absl::Status TakeTurn() override;
  void Describe(const Ceiling& ceiling, Record& record) const override;

  absl::StatusOr<RoundTimes> Run(RoundShape shape);

 private:
  // Work of the middle step, as the average over the decoding.
  Work MiddleStep() const {
    return StepWork(model_.description(), flags_.context + flags_.tokens / 2,
                    model_.format());
  }

  const BenchModel& model_;
  const EngineFlags& flags_;
  const std::unique_ptr<Engine> engine_;
  Samples rounds_;
  ThreadPool pool_;  // beside that of the engine, which may still use its own
  Burst burst_;
  std::vector<double> first_token_;
  std::vector<double> gaps_;
};

absl::StatusOr<RoundTimes> EngineSubject::Run(RoundShape shape) {
  shape.streams = flags_.batch;
  shape.vocab = model_.config().vocab;
  absl::StatusOr<RoundTimes> times =
      RunRound(*engine_, shape, std::chrono::duration<double>(flags_.seconds));
  if (!absl::IsDeadlineExceeded(times.status())) return times;
  return absl::DeadlineExceededError(absl::StrFormat(
      "%s %s: a round takes longer than --seconds %g; give more, or lower --context, "
      "--max-tokens or --batch",
      model_.architecture(), model_.size(), flags_.seconds));
}

absl::Status EngineSubject::TakeTurn() {
  RoundTimes times;
  MNEMON_RETURN_IF_ERROR(rounds_.Time([&]() -> absl::Status {
    MNEMON_ASSIGN_OR_RETURN(
        times, Run({.prompt_tokens = flags_.context, .new_tokens = flags_.tokens}));
    return absl::OkStatus();
  }));
  burst_.Run();
  first_token_.insert(first_token_.end(), times.first_token.begin(),
                      times.first_token.end());
  gaps_.insert(gaps_.end(), times.gaps.begin(), times.gaps.end());
  return absl::OkStatus();
}

void EngineSubject::Describe(const Ceiling& ceiling, Record& record) const {
  const Spread rounds = SpreadOf(rounds_.seconds());
  const Spread first = SpreadOf(first_token_);
  const Spread gaps = SpreadOf(gaps_);
  const Work step_work = MiddleStep();
  const Work prompt_work =
      PromptWork(model_.description(), flags_.context, model_.format());
  const double step = FloorOf(step_work, flags_.batch, ceiling).seconds();
  const double prompt = FloorOf(prompt_work, flags_.batch, ceiling).seconds();
  // The first new token comes from the prompt's last token.
  const auto steps = static_cast<double>(flags_.tokens - 1);
  const double floor = prompt + steps * step;
  const double tokens = static_cast<double>(flags_.batch * flags_.tokens);
  record.Set("tokens", flags_.tokens);
  record.Set("rounds", rounds_.count());
  record.Set("tokens_per_second.q25", tokens / rounds.upper);
  record.Set("tokens_per_second.median", tokens / rounds.median);
  record.Set("tokens_per_second.q75", tokens / rounds.lower);
  record.Set("floor_tokens_per_second", tokens / floor);
  record.Set("floor_share", floor / rounds.median);
  burst_.Describe(OperationsOf(prompt_work, flags_.batch) +
                      steps * OperationsOf(step_work, flags_.batch),
                  rounds.median, record);
  record.Set("first_token_ms.median", first.median * 1e3);
  record.Set("first_token_ms.p99", first.p99 * 1e3);
  record.Set("first_token_floor_ms", prompt * 1e3);
  record.Set("first_token_floor_share", prompt / first.median);
  record.Set("inter_token_us.median", gaps.median * 1e6);
  record.Set("inter_token_us.p99", gaps.p99 * 1e6);
  record.Set("inter_token_floor_us", step * 1e6);
  record.Set("inter_token_floor_share", gaps.median > 0 ? step / gaps.median : 0.0);
  record.Set("cpu_us_per_token", rounds_.cpu_seconds() * 1e6 /
                                     (tokens * static_cast<double>(rounds_.count())));
  record.Set("allocations_per_token",
             static_cast<double>(rounds_.allocated().calls) /
                 (tokens * static_cast<double>(rounds_.count())));
}

absl::StatusOr<std::unique_ptr<Subject>> MakeEngineSubject(const BenchModel& model,
                                                           const Compute& compute,
                                                           const EngineFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                          MakeEngine(model, compute.decoder, flags));
  auto subject =
      std::make_unique<EngineSubject>(model, flags, compute, std::move(engine));
  MNEMON_RETURN_IF_ERROR(subject->Run({.new_tokens = 2}).status());  // warms up
  return subject;
}

absl::Status RunEngine(const EngineFlags& flags) {
  return Measure(flags, {.command = "engine",
                         .columns = {{"architecture", "architecture"},
                                     {"size", "size"},
                                     {"sessions", "batch"},
                                     {"prompt", "context"},
                                     {"new", "tokens"},
                                     {"tokens/s", "tokens_per_second.median", 1},
                                     {"floor", "floor_tokens_per_second", 0},
                                     {"share", "floor_share", 4},
                                     {"of sustained", "sustained_share", 4},
                                     {"first ms", "first_token_ms.median", 2},
                                     {"floor", "first_token_floor_ms", 2},
                                     {"share", "first_token_floor_share", 4},
                                     {"gap us", "inter_token_us.median", 1},
                                     {"floor", "inter_token_floor_us", 1},
                                     {"share", "inter_token_floor_share", 4},
                                     {"allocations/token", "allocations_per_token", 0},
                                     {"steady", "steady"}},
                         .make = [&](const BenchModel& model, const Compute& compute) {
                           return MakeEngineSubject(model, compute, flags);
                         }});
}

}  // namespace

void AddEngineCommand(CommandLine& line) {
  auto flags = std::make_shared<EngineFlags>();
  flags->batch = 4;
  flags->context = 16;
  flags->seconds = 5;
  Command command = line.AddCommand(
      "engine", "Streams of tokens from the server's engine, without a network.",
      {"mnemon-bench engine --arch causal --size XS",
       "mnemon-bench engine --arch feedback_shared --size S --batch 8 --context 64 "
       "--max-tokens 64 --seconds 20 --json"},
      [flags] { return RunEngine(*flags); });
  AddBenchFlags(command, "Tokens of each prompt", *flags);
  command.Add("--max-tokens", &flags->tokens, "Tokens that each session generates")
      .Between(1, 65536);
}

}  // namespace mnemon
