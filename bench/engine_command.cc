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
#include "bench/spread.h"
#include "bench/stream_round.h"
#include "server/engine/engine.h"

namespace mnemon {
namespace {

using Seconds = std::chrono::duration<double>;

struct EngineFlags : BenchFlags {
  int64_t tokens = 32;
};

struct Subject {
  const BenchModel* model;
  std::unique_ptr<Engine> engine;
  std::vector<double> rounds = {};  // seconds
  std::vector<double> first_token = {};
  std::vector<double> gaps = {};
  double spent = 0;
  AllocationCount allocated = {};
};

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const BenchModel& model,
                                                   const EngineFlags& flags) {
  ModelFacts facts{.name = "default",
                   .architecture = model.config().architecture,
                   .vocab = model.config().vocab};
  const int64_t limit = model.decoder().spec().max_positions();
  if (limit != StateSpec::kUnlimited) facts.context_limit = limit;
  return Engine::Create({{.facts = facts, .decoder = &model.decoder()}},
                        {.sessions = static_cast<int32_t>(flags.batch),
                         .max_queue = static_cast<int32_t>(flags.batch),
                         .state_bytes = int64_t{16} << 30});
}

absl::Status TakeTurn(const EngineFlags& flags, RoundShape shape, bool timed,
                      Subject& subject) {
  shape.vocab = subject.model->config().vocab;
  const AllocationCount allocated = CountAllocations();
  const absl::StatusOr<RoundTimes> times =
      RunRound(*subject.engine, shape, Seconds(flags.seconds));
  const AllocationCount more = CountAllocations() - allocated;
  if (absl::IsDeadlineExceeded(times.status())) {
    return absl::DeadlineExceededError(absl::StrFormat(
        "%s %s: a round takes longer than --seconds %g; give more, or lower "
        "--context, --tokens or --batch",
        subject.model->architecture(), subject.model->size(), flags.seconds));
  }
  MNEMON_RETURN_IF_ERROR(times.status());
  if (!timed) return absl::OkStatus();
  subject.rounds.push_back(times->all);
  subject.first_token.insert(subject.first_token.end(), times->first_token.begin(),
                             times->first_token.end());
  subject.gaps.insert(subject.gaps.end(), times->gaps.begin(), times->gaps.end());
  subject.spent += times->all;
  subject.allocated.calls += more.calls;
  return absl::OkStatus();
}

// Models take turns, so that whatever else the machine does meets all of them.
absl::Status TakeTurns(const EngineFlags& flags, std::vector<Subject>& subjects) {
  for (Subject& subject : subjects) {
    const RoundShape warm_up{.streams = flags.batch, .new_tokens = 2};
    MNEMON_RETURN_IF_ERROR(TakeTurn(flags, warm_up, /*timed=*/false, subject));
  }
  const RoundShape shape{.streams = flags.batch,
                         .prompt_tokens = flags.context,
                         .new_tokens = flags.tokens};
  for (bool more = true; more;) {
    more = false;
    for (Subject& subject : subjects) {
      if (subject.spent >= flags.seconds) continue;
      MNEMON_RETURN_IF_ERROR(TakeTurn(flags, shape, /*timed=*/true, subject));
      more = true;
    }
  }
  return absl::OkStatus();
}

// While the streams decode; stands for their average.
Work MiddleStep(const BenchModel& model, const EngineFlags& flags) {
  return StepWork(model.config(), flags.context + flags.tokens / 2);
}

Record Describe(const Subject& subject, const EngineFlags& flags,
                const Bracket& bracket, size_t index) {
  const Spread rounds = SpreadOf(subject.rounds);
  const Spread first = SpreadOf(subject.first_token);
  const Spread gaps = SpreadOf(subject.gaps);
  const Ceiling ceiling = bracket.ceiling(index);
  const BenchModel& model = *subject.model;
  const double step = FloorOf(MiddleStep(model, flags), flags.batch, ceiling).seconds();
  const double prompt =
      FloorOf(PromptWork(model.config(), flags.context), flags.batch, ceiling)
          .seconds();
  // The prompt's last token gives the first new one.
  const double floor = prompt + static_cast<double>(flags.tokens - 1) * step;
  const double tokens = static_cast<double>(flags.batch * flags.tokens);
  Record record = DescribeModel(model, flags);
  record.Set("tokens", flags.tokens);
  record.Set("rounds", static_cast<int64_t>(subject.rounds.size()));
  record.Set("tokens_per_second.q25", tokens / rounds.upper);
  record.Set("tokens_per_second.median", tokens / rounds.median);
  record.Set("tokens_per_second.q75", tokens / rounds.lower);
  record.Set("floor_tokens_per_second", tokens / floor);
  record.Set("floor_share", floor / rounds.median);
  record.Set("first_token_ms.median", first.median * 1e3);
  record.Set("first_token_ms.p99", first.p99 * 1e3);
  record.Set("first_token_floor_ms", prompt * 1e3);
  record.Set("inter_token_us.median", gaps.median * 1e6);
  record.Set("inter_token_us.p99", gaps.p99 * 1e6);
  record.Set("inter_token_floor_us", step * 1e6);
  record.Set("inter_token_floor_share", gaps.median > 0 ? step / gaps.median : 0.0);
  record.Set("allocations_per_token",
             static_cast<double>(subject.allocated.calls) /
                 (tokens * static_cast<double>(subject.rounds.size())));
  bracket.Describe(index, record);
  return record;
}

const Column kColumns[] = {{"architecture", "architecture"},
                           {"size", "size"},
                           {"sessions", "batch"},
                           {"prompt", "context"},
                           {"new", "tokens"},
                           {"tokens/s", "tokens_per_second.median", 1},
                           {"share", "floor_share", 4},
                           {"first ms", "first_token_ms.median", 2},
                           {"p99", "first_token_ms.p99", 2},
                           {"gap us", "inter_token_us.median", 1},
                           {"p99", "inter_token_us.p99", 1},
                           {"floor us", "inter_token_floor_us", 1},
                           {"share", "inter_token_floor_share", 4},
                           {"steady", "steady"}};

absl::Status RunEngine(const EngineFlags& flags, at::Device device) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<BenchModel>> models,
                          MakeModels(flags, device));
  std::vector<Subject> subjects;
  std::vector<int64_t> working_sets;
  for (const std::unique_ptr<BenchModel>& model : models) {
    MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, MakeEngine(*model, flags));
    subjects.push_back({.model = model.get(), .engine = std::move(engine)});
    working_sets.push_back(WorkingSet(MiddleStep(*model, flags), flags.batch));
  }
  Bracket bracket(ThreadsOf(flags), working_sets);
  MNEMON_RETURN_IF_ERROR(TakeTurns(flags, subjects));
  bracket.Close();
  Report report;
  report.run.Set("command", std::string("engine"));
  report.run.Set("seconds", flags.seconds);
  bracket.Describe(report.run);
  for (size_t i = 0; i < subjects.size(); ++i) {
    report.results.push_back(Describe(subjects[i], flags, bracket, i));
  }
  PrintReport(report, kColumns, flags);
  return absl::OkStatus();
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
       "--tokens 64 --seconds 20 --json"},
      [flags] {
        return RunComputing(flags->compute, [&](at::Device device) {
          return RunEngine(*flags, device);
        });
      });
  AddBenchFlags(command, "Tokens of each prompt", *flags);
  command.Add("--tokens", &flags->tokens, "Tokens that each session generates")
      .Between(1, 65536);
}

}  // namespace mnemon
