// SPDX-License-Identifier: MIT
#include <chrono>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
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

struct Subject {
  const BenchModel* model;
  Sessions sessions;
  Work work;
  std::vector<double> seconds = {};  // of each prompt
  double spent = 0;
  AllocationCount allocated = {};
};

absl::Status FeedOnce(const BenchFlags& flags, bool timed, Subject& subject) {
  const Seconds left(flags.seconds);
  const AllocationCount allocated = CountAllocations();
  const Time::time_point start = Time::now();
  const absl::Status status = subject.sessions.FeedPrompt(
      flags.context, start + std::chrono::duration_cast<Time::duration>(left));
  const double took = Seconds(Time::now() - start).count();
  const AllocationCount more = CountAllocations() - allocated;
  subject.sessions.Reset();
  if (absl::IsDeadlineExceeded(status)) {
    return absl::DeadlineExceededError(absl::StrFormat(
        "%s %s: a prompt takes longer than --seconds %g; give more, or lower "
        "--context or --batch",
        subject.model->architecture(), subject.model->size(), flags.seconds));
  }
  MNEMON_RETURN_IF_ERROR(status);
  if (!timed) return status;
  subject.seconds.push_back(took);
  subject.spent += took;
  subject.allocated.calls += more.calls;
  subject.allocated.bytes += more.bytes;
  return status;
}

// Models take turns, so that whatever else the machine does meets all of them.
absl::Status TakeTurns(const BenchFlags& flags, std::vector<Subject>& subjects) {
  for (bool more = true; more;) {
    more = false;
    for (Subject& subject : subjects) {
      if (subject.spent >= flags.seconds) continue;
      MNEMON_RETURN_IF_ERROR(FeedOnce(flags, /*timed=*/true, subject));
      more = true;
    }
  }
  return absl::OkStatus();
}

Record Describe(const Subject& subject, const BenchFlags& flags, const Bracket& bracket,
                size_t index) {
  const Spread spread = SpreadOf(subject.seconds);
  const Floor floor = FloorOf(subject.work, flags.batch, bracket.ceiling(index));
  const double tokens = static_cast<double>(flags.batch * flags.context);
  const double fed = tokens * static_cast<double>(subject.seconds.size());
  Record record = DescribeModel(*subject.model, flags);
  record.Set("prompts", static_cast<int64_t>(subject.seconds.size()));
  record.Set("prompt_ms.min", spread.least * 1e3);
  record.Set("prompt_ms.q25", spread.lower * 1e3);
  record.Set("prompt_ms.median", spread.median * 1e3);
  record.Set("prompt_ms.q75", spread.upper * 1e3);
  record.Set("tokens_per_second", tokens / spread.median);
  record.Set("floor_ms.bytes", floor.bytes_seconds * 1e3);
  record.Set("floor_ms.flop", floor.flop_seconds * 1e3);
  record.Set("floor_ms.floor", floor.seconds() * 1e3);
  record.Set("floor_share", floor.seconds() / spread.median);
  record.Set("allocations_per_token", subject.allocated.calls / fed);
  bracket.Describe(index, record);
  return record;
}

const Column kColumns[] = {{"architecture", "architecture"},
                           {"size", "size"},
                           {"batch", "batch"},
                           {"prompt", "context"},
                           {"ms", "prompt_ms.median", 2},
                           {"q25", "prompt_ms.q25", 2},
                           {"q75", "prompt_ms.q75", 2},
                           {"tokens/s", "tokens_per_second", 0},
                           {"floor ms", "floor_ms.floor", 2},
                           {"share", "floor_share", 4},
                           {"allocations/token", "allocations_per_token", 0},
                           {"steady", "steady"}};

absl::Status RunPrefill(const BenchFlags& flags, at::Device device) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<BenchModel>> models,
                          MakeModels(flags, device));
  std::vector<Subject> subjects;
  std::vector<int64_t> working_sets;
  for (const std::unique_ptr<BenchModel>& model : models) {
    MNEMON_ASSIGN_OR_RETURN(Sessions sessions,
                            Sessions::Create(*model, flags.batch, 0));
    subjects.push_back({.model = model.get(),
                        .sessions = std::move(sessions),
                        .work = PromptWork(model->config(), flags.context)});
    // What lies in the caches while the prompt is fed.
    working_sets.push_back(
        WorkingSet(StepWork(model->config(), flags.context), flags.batch));
  }
  for (Subject& subject : subjects) {
    MNEMON_RETURN_IF_ERROR(FeedOnce(flags, /*timed=*/false, subject));
  }
  Bracket bracket(ThreadsOf(flags), working_sets);
  MNEMON_RETURN_IF_ERROR(TakeTurns(flags, subjects));
  bracket.Close();
  Report report;
  report.run.Set("command", std::string("prefill"));
  report.run.Set("seconds", flags.seconds);
  bracket.Describe(report.run);
  for (size_t i = 0; i < subjects.size(); ++i) {
    report.results.push_back(Describe(subjects[i], flags, bracket, i));
  }
  PrintReport(report, kColumns, flags);
  return absl::OkStatus();
}

}  // namespace

void AddPrefillCommand(CommandLine& line) {
  auto flags = std::make_shared<BenchFlags>();
  Command command = line.AddCommand(
      "prefill", "A prompt for each of some fresh sessions.",
      {"mnemon-bench prefill --arch causal --size S --context 512",
       "mnemon-bench prefill --arch transformer_xl,fast_weights --size XS --batch 4 "
       "--seconds 5 --json"},
      [flags] {
        return RunComputing(flags->compute, [&](at::Device device) {
          return RunPrefill(*flags, device);
        });
      });
  AddBenchFlags(command, "Tokens of the prompt", *flags);
}

}  // namespace mnemon
