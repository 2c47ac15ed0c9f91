// SPDX-License-Identifier: MIT
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bench/figures/spread.h"
#include "bench/kernels/commands.h"
#include "bench/kernels/measurement.h"
#include "bench/kernels/sessions.h"

namespace mnemon {
namespace {

// The same prompt repeatedly, for fresh sessions.
class PrefillSubject : public Subject {
 public:
  PrefillSubject(const BenchModel& model, const BenchFlags& flags, ThreadPool* pool,
                 Sessions sessions)
      : model_(model),
        flags_(flags),
        sessions_(std::move(sessions)),
        prompts_(flags.seconds),
        burst_(pool, model.format()) {}

  // Bytes in the caches while the prompt is computed.
  int64_t working_set() const override {
    return WorkingSet(StepWork(model_.description(), flags_.context, model_.format()),
                      flags_.batch);
  }
  bool done() const override { return prompts_.done(); }
  absl::Status Feed();
  absl::Status TakeTurn() override {
    sessions_.Reset();
    const absl::Status status = prompts_.Time([&] { return Feed(); });
    burst_.Run();
    return status;
  }
  void Describe(const Ceiling& ceiling, Record& record) const override;

 private:
  const BenchModel& model_;
  const BenchFlags& flags_;
  Sessions sessions_;
  Samples prompts_;
  Burst burst_;
};

absl::Status PrefillSubject::Feed() {
  using Time = std::chrono::steady_clock;
  const std::chrono::duration<double> left(flags_.seconds);
  absl::Status status = sessions_.FeedPrompt(
      flags_.context, Time::now() + std::chrono::duration_cast<Time::duration>(left));
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::DeadlineExceededError(absl::StrFormat(
      "%s %s: a prompt takes longer than --seconds %g; give more, or lower --context "
      "or --batch",
      model_.architecture(), model_.size(), flags_.seconds));
}

void PrefillSubject::Describe(const Ceiling& ceiling, Record& record) const {
  const Work work = PromptWork(model_.description(), flags_.context, model_.format());
  const Floor floor = FloorOf(work, flags_.batch, ceiling);
  const double median = SpreadOf(prompts_.seconds()).median;
  const double tokens = static_cast<double>(flags_.batch * flags_.context);
  const double computed = tokens * static_cast<double>(prompts_.count());
  record.Set("prompts", prompts_.count());
  DescribeTimes("prompt_ms", prompts_.seconds(), 1e-3, record);
  record.Set("tokens_per_second", tokens / median);
  DescribeFloor("floor_ms", floor, 1e-3, record);
  record.Set("floor_share", floor.seconds() / median);
  burst_.Describe(OperationsOf(work, flags_.batch), median, record);
  record.Set("allocations_per_token", prompts_.allocated().calls / computed);
}

absl::StatusOr<std::unique_ptr<Subject>> MakePrefillSubject(const BenchModel& model,
                                                            const Compute& compute,
                                                            const BenchFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(Sessions sessions, Sessions::Create(model, flags.batch, 0));
  auto subject = std::make_unique<PrefillSubject>(model, flags, BurstPool(compute),
                                                  std::move(sessions));
  MNEMON_RETURN_IF_ERROR(subject->Feed());  // warms up
  return subject;
}

absl::Status RunPrefill(const BenchFlags& flags) {
  return Measure(flags, {.command = "prefill",
                         .columns = {{"architecture", "architecture"},
                                     {"size", "size"},
                                     {"batch", "batch"},
                                     {"prompt", "context"},
                                     {"ms", "prompt_ms.median", 2},
                                     {"q25", "prompt_ms.q25", 2},
                                     {"q75", "prompt_ms.q75", 2},
                                     {"tokens/s", "tokens_per_second", 0},
                                     {"floor ms", "floor_ms.floor", 2},
                                     {"share", "floor_share", 4},
                                     {"of sustained", "sustained_share", 4},
                                     {"allocations/token", "allocations_per_token", 0},
                                     {"steady", "steady"}},
                         .make = [&](const BenchModel& model, const Compute& compute) {
                           return MakePrefillSubject(model, compute, flags);
                         }});
}

}  // namespace

void AddPrefillCommand(CommandLine& line) {
  auto flags = std::make_shared<BenchFlags>();
  Command command = line.AddCommand(
      "prefill", "A prompt for each of some fresh sessions.",
      {"mnemon-bench prefill --arch causal --size S --context 512",
       "mnemon-bench prefill --arch transformer_xl,fast_weights --size XS --batch 4 "
       "--seconds 5 --json"},
      [flags] { return RunPrefill(*flags); });
  AddBenchFlags(command, "Tokens of the prompt", *flags);
}

}  // namespace mnemon
