// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/allocation_count.h"
#include "bench/bench_flags.h"
#include "bench/bracket.h"
#include "bench/commands.h"
#include "bench/floor.h"
#include "bench/sessions.h"
#include "bench/spread.h"

namespace mnemon {
namespace {

using Time = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Models take turns, so that whatever else the machine does meets all of them.
constexpr int kTurns = 10;

constexpr int64_t kMaxSamples = 1'000'000;

struct Subject {
  const BenchModel* model;
  Sessions sessions;
  Work work;
  std::vector<double> seconds = {};  // of each step
  double spent = 0;
  AllocationCount allocated = {};
};

// The first session must get the same logits alone and among the others.
absl::Status CheckBatchInvariance(const BenchModel& model, int64_t batch,
                                  int64_t context) {
  std::vector<float> alone;
  for (const int64_t count : {int64_t{1}, batch}) {
    MNEMON_ASSIGN_OR_RETURN(Sessions sessions, Sessions::Create(model, count, context));
    MNEMON_RETURN_IF_ERROR(sessions.Step(count));
    const auto row = sessions.logits().first(model.config().vocab);
    if (alone.empty()) {
      alone.assign(row.begin(), row.end());
    } else if (!std::equal(row.begin(), row.end(), alone.begin())) {
      return absl::InternalError(StrCat(model.architecture(), " ", model.size(),
                                        ": logits differ alone and in a batch of ",
                                        batch, "; no figure of this build counts"));
    }
  }
  return absl::OkStatus();
}

// One turn: an untimed step after the others have used the caches, then timed ones.
absl::Status TakeTurn(int64_t batch, double turn_seconds, Subject& subject) {
  MNEMON_RETURN_IF_ERROR(subject.sessions.Step(batch));
  subject.sessions.Rewind();
  double spent = 0;
  do {
    const AllocationCount allocated = CountAllocations();
    const Time::time_point start = Time::now();
    const absl::Status status = subject.sessions.Step(batch);
    const double took = Seconds(Time::now() - start).count();
    const AllocationCount more = CountAllocations() - allocated;
    MNEMON_RETURN_IF_ERROR(status);
    subject.sessions.Rewind();
    subject.seconds.push_back(took);
    subject.allocated.calls += more.calls;
    subject.allocated.bytes += more.bytes;
    spent += took;
  } while (spent < turn_seconds &&
           static_cast<int64_t>(subject.seconds.size()) < kMaxSamples);
  subject.spent += spent;
  return absl::OkStatus();
}

absl::Status TakeTurns(const BenchFlags& flags, std::vector<Subject>& subjects) {
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Subject& subject : subjects) {
      if (subject.spent >= flags.seconds) continue;
      MNEMON_RETURN_IF_ERROR(TakeTurn(flags.batch, flags.seconds / kTurns, subject));
    }
  }
  return absl::OkStatus();
}

Record Describe(const Subject& subject, const BenchFlags& flags, const Bracket& bracket,
                size_t index) {
  const Spread spread = SpreadOf(subject.seconds);
  const Floor floor = FloorOf(subject.work, flags.batch, bracket.ceiling(index));
  const double steps = static_cast<double>(subject.seconds.size());
  const double moved = static_cast<double>(WorkingSet(subject.work, flags.batch));
  Record record = DescribeModel(*subject.model, flags);
  record.Set("weight_bytes", subject.work.weight_bytes);
  record.Set("state_bytes_moved_per_session", subject.work.state_bytes);
  record.Set("state_bytes_held", subject.sessions.held_bytes());
  record.Set("steps", static_cast<int64_t>(subject.seconds.size()));
  record.Set("step_us.min", spread.least * 1e6);
  record.Set("step_us.q25", spread.lower * 1e6);
  record.Set("step_us.median", spread.median * 1e6);
  record.Set("step_us.q75", spread.upper * 1e6);
  record.Set("step_us.p99", spread.p99 * 1e6);
  record.Set("tokens_per_second", static_cast<double>(flags.batch) / spread.median);
  record.Set("floor_us.bytes", floor.bytes_seconds * 1e6);
  record.Set("floor_us.flop", floor.flop_seconds * 1e6);
  record.Set("floor_us.floor", floor.seconds() * 1e6);
  record.Set("floor_share", floor.seconds() / spread.median);
  record.Set("moved_gbytes", moved / spread.median / 1e9);
  record.Set("allocations_per_step", subject.allocated.calls / steps);
  record.Set("allocated_bytes_per_step", subject.allocated.bytes / steps);
  bracket.Describe(index, record);
  return record;
}

const Column kColumns[] = {{"architecture", "architecture"},
                           {"size", "size"},
                           {"batch", "batch"},
                           {"context", "context"},
                           {"us/step", "step_us.median", 1},
                           {"q25", "step_us.q25", 1},
                           {"q75", "step_us.q75", 1},
                           {"tokens/s", "tokens_per_second", 0},
                           {"floor us", "floor_us.floor", 1},
                           {"share", "floor_share", 4},
                           {"allocations", "allocations_per_step", 0},
                           {"steady", "steady"}};

absl::Status RunStep(const BenchFlags& flags, at::Device device) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<BenchModel>> models,
                          MakeModels(flags, device));
  std::vector<Subject> subjects;
  std::vector<int64_t> working_sets;
  for (const std::unique_ptr<BenchModel>& model : models) {
    MNEMON_RETURN_IF_ERROR(CheckBatchInvariance(*model, flags.batch, flags.context));
    MNEMON_ASSIGN_OR_RETURN(Sessions sessions,
                            Sessions::Create(*model, flags.batch, flags.context));
    const Work work = StepWork(model->config(), flags.context);
    subjects.push_back(
        {.model = model.get(), .sessions = std::move(sessions), .work = work});
    working_sets.push_back(WorkingSet(work, flags.batch));
  }
  Bracket bracket(ThreadsOf(flags), working_sets);
  MNEMON_RETURN_IF_ERROR(TakeTurns(flags, subjects));
  bracket.Close();
  Report report;
  report.run.Set("command", std::string("step"));
  report.run.Set("seconds", flags.seconds);
  bracket.Describe(report.run);
  for (size_t i = 0; i < subjects.size(); ++i) {
    report.results.push_back(Describe(subjects[i], flags, bracket, i));
  }
  PrintReport(report, kColumns, flags);
  return absl::OkStatus();
}

}  // namespace

void AddStepCommand(CommandLine& line) {
  auto flags = std::make_shared<BenchFlags>();
  Command command = line.AddCommand(
      "step", "One more token for each of some sessions.",
      {"mnemon-bench step --arch causal --size S",
       "mnemon-bench step --arch feedback,fast_weights --size XS,S --batch 16 "
       "--context 256 --seconds 5 --json"},
      [flags] {
        return RunComputing(flags->compute,
                            [&](at::Device device) { return RunStep(*flags, device); });
      });
  AddBenchFlags(command, "Tokens that each session has behind it", *flags);
}

}  // namespace mnemon
