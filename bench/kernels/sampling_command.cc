// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "bench/kernels/commands.h"
#include "bench/kernels/measurement.h"
#include "model/operations/cpu_operations.h"
#include "model/sampling/sampler.h"

namespace mnemon {
namespace {

struct SamplingFlags {
  int64_t vocab = 50257;
  double spread = 3;
  std::string target;  // empty: the best
  BenchFlags bench;
};

struct Case {
  std::string name;
  SamplingParams params;
};

std::vector<Case> Cases() {
  const auto penalty = [](int32_t window) {
    return SamplingParams{
        .temperature = 0, .repetition_penalty = 1.1f, .penalty_window_tokens = window};
  };
  return {{"greedy", {.temperature = 0}},
          {"greedy, bias", {.temperature = 0, .logit_bias = {{1, 1.0f}}}},
          {"greedy, penalties, window 64", penalty(64)},
          {"greedy, penalties, window 4096", penalty(4096)},
          {"greedy, penalties, window 65536", penalty(65536)},
          {"temperature 1", {}},
          {"top_k 50", {.top_k = 50}},
          {"top_p 0.9", {.top_p = 0.9f}},
          {"top_p 0.999", {.top_p = 0.999f}},
          {"min_p 0.05", {.min_p = 0.05f}},
          {"typical_p 0.9", {.typical_p = 0.9f}}};
}

// Measures one token: the counts of the window, then the draw.
absl::StatusOr<Record> Measure(const Case& what, const SamplingFlags& flags) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, static_cast<float>(flags.spread));
  std::vector<float> logits(static_cast<size_t>(flags.vocab));
  for (float& logit : logits) logit = normal(random);
  std::vector<int32_t> history(70000);
  for (int32_t& token : history) {
    token = static_cast<int32_t>(random() % logits.size());
  }
  SamplerScratch scratch{.operations = &SamplingOperationsOf(flags.target)};
  PenaltyCounts penalties(what.params, flags.vocab);
  const auto draw = [&] {
    penalties.Update(history);
    const absl::StatusOr<int32_t> token =
        Sample(logits, what.params, static_cast<int64_t>(history.size()), scratch,
               penalties.counts());
    if (token.ok()) history.push_back(*token);
    return token.status();
  };
  history.reserve(history.size() + 2'000'000);
  MNEMON_RETURN_IF_ERROR(draw());  // warms up
  Samples draws(flags.bench.seconds);
  while (!draws.done()) MNEMON_RETURN_IF_ERROR(draws.Time(draw));
  Record record;
  record.Set("case", what.name);
  record.Set("vocab", flags.vocab);
  record.Set("tokens", draws.count());
  DescribeTimes("token_us", draws.seconds(), 1e-6, record);
  record.Set("allocations", draws.allocated().calls);
  return record;
}

absl::Status Run(const SamplingFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(const CpuOperations* const operations,
                          FindCpuOperations(flags.target));
  Report report;
  report.run.Set("command", std::string("sampling"));
  report.run.Set("target", std::string(operations->target));
  for (const Case& what : Cases()) {
    MNEMON_ASSIGN_OR_RETURN(Record record, Measure(what, flags));
    report.results.push_back(std::move(record));
  }
  const std::vector<Column> columns = {{"case", "case"},
                                       {"V", "vocab"},
                                       {"us/token", "token_us.median", 1},
                                       {"min", "token_us.min", 1},
                                       {"q75", "token_us.q75", 1},
                                       {"p99", "token_us.p99", 1},
                                       {"allocations", "allocations"}};
  PrintReport(report, columns, flags.bench);
  return absl::OkStatus();
}

}  // namespace

void AddSamplingCommand(CommandLine& line) {
  auto flags = std::make_shared<SamplingFlags>();
  flags->bench.seconds = 0.5;
  Command command = line.AddCommand(
      "sampling", "The choice of a token from drawn logits, one session, one thread.",
      {"mnemon-bench sampling", "mnemon-bench sampling --vocab 259 --json"},
      [flags] { return Run(*flags); });
  command.Add("--vocab", &flags->vocab, "Tokens of the vocabulary").Between(2, 1 << 20);
  command.Add("--spread", &flags->spread, "Standard deviation of the logits, normal")
      .Between(0, 1000);
  command
      .Add("--target", &flags->target,
           "Instruction set: avx512, avx2, portable or reference")
      .Default("the first of them that the machine has");
  command.Add("--seconds", &flags->bench.seconds, "Seconds to measure each case")
      .Between(0.01, 3600);
  command.Add("--json", &flags->bench.json, "Print one JSON document");
}

}  // namespace mnemon
