// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/figures/spread.h"
#include "bench/kernels/commands.h"
#include "bench/kernels/measurement.h"
#include "bench/kernels/sessions.h"

namespace mnemon {
namespace {

constexpr int kTurns = 10;

// Checks that the first session gets the same logits alone and among the others.
absl::Status CheckBatchInvariance(const BenchModel& model, const BenchFlags& flags) {
  std::vector<float> alone;
  for (const int64_t count : {int64_t{1}, flags.batch}) {
    MNEMON_ASSIGN_OR_RETURN(Sessions sessions,
                            Sessions::Create(model, count, flags.context));
    MNEMON_RETURN_IF_ERROR(sessions.Step(count));
    const auto row = sessions.logits().first(model.config().vocab);
    if (alone.empty()) {
      alone.assign(row.begin(), row.end());
    } else if (!std::equal(row.begin(), row.end(), alone.begin())) {
      return absl::InternalError(StrCat(model.architecture(), " ", model.size(),
                                        ": logits differ alone and in a batch of ",
                                        flags.batch,
                                        "; no figure of this build counts"));
    }
  }
  return absl::OkStatus();
}

// One token for each session, repeatedly from the same context.
class StepSubject : public Subject {
 public:
  StepSubject(const BenchModel& model, const BenchFlags& flags, ThreadPool* pool,
              Sessions sessions)
      : batch_(flags.batch),
        turn_seconds_(flags.seconds / kTurns),
        work_(StepWork(model.description(), flags.context, model.format())),
        sessions_(std::move(sessions)),
        steps_(flags.seconds),
        burst_(pool, model.format()) {}

  int64_t working_set() const override { return WorkingSet(work_, batch_); }
  bool done() const override { return steps_.done(); }
  absl::Status TakeTurn() override;
  void Describe(const Ceiling& ceiling, Record& record) const override;

 private:
  const int64_t batch_;
  const double turn_seconds_;
  const Work work_;
  Sessions sessions_;
  Samples steps_;
  Burst burst_;
};

absl::Status StepSubject::TakeTurn() {
  // Warms the caches, which others have used since.
  MNEMON_RETURN_IF_ERROR(sessions_.Step(batch_));
  sessions_.Rewind();
  const double end = steps_.spent() + turn_seconds_;
  do {
    MNEMON_RETURN_IF_ERROR(steps_.Time([&] { return sessions_.Step(batch_); }));
    sessions_.Rewind();
  } while (steps_.spent() < end && !steps_.done());
  burst_.Run();
  return absl::OkStatus();
}

void StepSubject::Describe(const Ceiling& ceiling, Record& record) const {
  const double median = SpreadOf(steps_.seconds()).median;
  const Floor floor = FloorOf(work_, batch_, ceiling);
  const double steps = static_cast<double>(steps_.count());
  record.Set("weight_bytes", work_.weight_bytes);
  record.Set("state_bytes_moved_per_session", work_.state_bytes);
  record.Set("state_bytes_held", sessions_.held_bytes());
  record.Set("steps", steps_.count());
  DescribeTimes("step_us", steps_.seconds(), 1e-6, record);
  record.Set("tokens_per_second", static_cast<double>(batch_) / median);
  DescribeFloor("floor_us", floor, 1e-6, record);
  record.Set("floor_share", floor.seconds() / median);
  burst_.Describe(OperationsOf(work_, batch_), median, record);
  record.Set("moved_gbytes", static_cast<double>(working_set()) / median / 1e9);
  record.Set("cpu_us_per_step", steps_.cpu_seconds() * 1e6 / steps);
  record.Set("allocations_per_step", steps_.allocated().calls / steps);
  record.Set("allocated_bytes_per_step", steps_.allocated().bytes / steps);
}

absl::StatusOr<std::unique_ptr<Subject>> MakeStepSubject(const BenchModel& model,
                                                         const Compute& compute,
                                                         const BenchFlags& flags) {
  MNEMON_RETURN_IF_ERROR(CheckBatchInvariance(model, flags));
  MNEMON_ASSIGN_OR_RETURN(Sessions sessions,
                          Sessions::Create(model, flags.batch, flags.context));
  if (flags.introspect) sessions.Introspect();
  return std::make_unique<StepSubject>(model, flags, BurstPool(compute),
                                       std::move(sessions));
}

absl::Status RunStep(const BenchFlags& flags) {
  return Measure(flags, {.command = "step",
                         .columns = {{"architecture", "architecture"},
                                     {"size", "size"},
                                     {"batch", "batch"},
                                     {"context", "context"},
                                     {"us/step", "step_us.median", 1},
                                     {"q25", "step_us.q25", 1},
                                     {"q75", "step_us.q75", 1},
                                     {"p99", "step_us.p99", 1},
                                     {"tokens/s", "tokens_per_second", 0},
                                     {"floor us", "floor_us.floor", 1},
                                     {"share", "floor_share", 4},
                                     {"of sustained", "sustained_share", 4},
                                     {"allocations", "allocations_per_step", 0},
                                     {"steady", "steady"}},
                         .make = [&](const BenchModel& model, const Compute& compute) {
                           return MakeStepSubject(model, compute, flags);
                         }});
}

}  // namespace

void AddStepCommand(CommandLine& line) {
  auto flags = std::make_shared<BenchFlags>();
  Command command = line.AddCommand(
      "step", "One more token for each of some sessions.",
      {"mnemon-bench step --arch causal --size S",
       "mnemon-bench step --arch feedback,fast_weights --size XS,S --batch 16 "
       "--context 256 --seconds 5 --json"},
      [flags] { return RunStep(*flags); });
  AddBenchFlags(command, "Length of each session's context in tokens", *flags);
  command.Add("--introspect", &flags->introspect,
              "Have each step tell all of its tokens that it can");
}

}  // namespace mnemon
