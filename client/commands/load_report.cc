// SPDX-License-Identifier: MIT
#include "client/commands/load_report.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/sampling_flags.h"
#include "nlohmann/json.hpp"

namespace mnemon::client {
namespace {

using LoadReport = nlohmann::ordered_json;

struct NamedTime {
  const char* name;
  const Distribution* times;
};

std::vector<NamedTime> Times(const LoadSubject& subject, const LoadResult& result) {
  const LoadFigures& figures = result.figures;
  std::vector<NamedTime> times = {{"ttft", &figures.ttft()},
                                  {"itl", &figures.itl()},
                                  {"tpot", &figures.tpot()},
                                  {"e2e", &figures.e2e()},
                                  {"queue", &figures.queue()}};
  if (subject.options.rate > 0) times.push_back({"lateness", &figures.lateness()});
  if (subject.options.rest_seconds > 0) {
    times.push_back({"rested_ttft", &result.rested_ttft});
  }
  return times;
}

double PerSecond(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::vector<std::pair<const char*, double>> Limits(const GoodputLimits& limits) {
  std::vector<std::pair<const char*, double>> set;
  if (limits.ttft) set.emplace_back("ttft", *limits.ttft);
  if (limits.itl) set.emplace_back("itl", *limits.itl);
  if (limits.tpot) set.emplace_back("tpot", *limits.tpot);
  if (limits.e2e) set.emplace_back("e2e", *limits.e2e);
  return set;
}

const char* EndName(LoadEnd end) {
  constexpr const char* kNames[] = {"done", "stopped", "server_gone"};
  return kNames[static_cast<int>(end)];
}

LoadReport ToReport(const Distribution& times) {
  return {{"count", times.count()},
          {"mean", times.mean()},
          {"median", times.Quantile(0.5)},
          {"deviation", times.deviation()},
          {"p90", times.Quantile(0.9)},
          {"p99", times.Quantile(0.99)},
          {"max", times.max()}};
}

LoadReport LoopReport(const LoadSubject& subject) {
  const LoadOptions& options = subject.options;
  LoadReport report = {{"server", subject.server},
                       {"model", subject.model.name},
                       {"architecture", subject.model.architecture},
                       {"loop", options.rate > 0 ? "open" : "closed"}};
  if (options.rate > 0) {
    report["rate"] = options.rate;
    report["max_in_flight"] = options.max_in_flight;
  } else {
    report["concurrency"] = options.concurrency;
  }
  report["seed"] = options.draw.seed;
  report["prompt_tokens"] = TokenRangeText(options.draw.prompt_tokens);
  report["max_tokens"] = TokenRangeText(options.draw.max_tokens);
  report["sessions"] = options.sessions;
  return report;
}

std::string TableLine(const std::string& name, const std::string& text) {
  return absl::StrFormat("%-12s %s\n", name, text);
}

std::string TimesTable(const LoadSubject& subject, const LoadResult& result) {
  std::string text =
      absl::StrFormat("\n%-12s%10s%10s%10s%10s%10s%10s%10s\n", "ms", "mean", "median",
                      "deviation", "p90", "p99", "max", "count");
  for (const NamedTime& row : Times(subject, result)) {
    const Distribution& times = *row.times;
    absl::StrAppendFormat(&text, "%-12s%10.2f%10.2f%10.2f%10.2f%10.2f%10.2f%10d\n",
                          row.name, times.mean() * 1e3, times.Quantile(0.5) * 1e3,
                          times.deviation() * 1e3, times.Quantile(0.9) * 1e3,
                          times.Quantile(0.99) * 1e3, times.max() * 1e3, times.count());
  }
  return text;
}

std::string LoopText(const LoadSubject& subject, double seconds) {
  const LoadOptions& options = subject.options;
  const std::string loop =
      options.rate > 0 ? absl::StrFormat("open loop, %g calls/s", options.rate)
                       : StrCat("closed loop, ", options.concurrency, " callers");
  return absl::StrFormat(
      "%s at %s; %s%s; prompts of %s tokens, at most %s generated; %.2f s",
      subject.model.name, subject.server, loop,
      options.sessions > 0 ? StrCat(", ", options.sessions, " sessions") : "",
      TokenRangeText(options.draw.prompt_tokens),
      TokenRangeText(options.draw.max_tokens), seconds);
}

std::string GoodputText(const LoadFigures& figures, double seconds) {
  std::string text =
      absl::StrFormat("%.2f calls/s, %d calls within",
                      PerSecond(figures.good(), seconds), figures.good());
  const char* separator = " ";
  for (const auto& [name, limit] : Limits(figures.limits())) {
    absl::StrAppendFormat(&text, "%s%s %g ms", separator, name, limit * 1e3);
    separator = ", ";
  }
  return text;
}

// Remarks that a reader of the figures needs.
std::string Remarks(const LoadResult& result) {
  const LoadFigures& figures = result.figures;
  std::string text;
  if (figures.waited() + figures.unsent() > 0) {
    text += TableLine(
        "slow", absl::StrFormat(
                    "the server does not reach this rate: %d calls waited for another "
                    "to end, which their times contain, and %d were never sent",
                    figures.waited(), figures.unsent()));
  }
  if (result.end == LoadEnd::kStopped) text += TableLine("stopped", "before the end");
  if (result.end == LoadEnd::kServerGone) {
    text += TableLine("gone", std::string(Described(result.gone).message()));
  }
  if (!result.void_why.empty()) text += TableLine("void", result.void_why);
  if (!result.not_deleted.ok()) {
    text += TableLine("left", StrCat("sessions were not deleted, they expire: ",
                                     Described(result.not_deleted).message()));
  }
  return text;
}

}  // namespace

std::string LoadTable(const LoadSubject& subject, const LoadResult& result) {
  const LoadFigures& figures = result.figures;
  std::string text = TableLine("load", LoopText(subject, result.seconds));
  text += TableLine(
      "calls", absl::StrFormat("completed %d, refused %d, failed %d, unfinished %d",
                               figures.completed(), figures.refused(), figures.failed(),
                               figures.unfinished()));
  for (const auto& [kind, count] : figures.errors()) {
    text += TableLine("  error", StrCat(count, " ", kind.first, " ", kind.second));
  }
  text += TableLine(
      "throughput",
      absl::StrFormat("%.2f calls/s, %.1f tokens/s generated, %.1f tokens/s of prompts",
                      PerSecond(figures.completed(), result.seconds),
                      PerSecond(figures.generated_tokens(), result.seconds),
                      PerSecond(figures.prompt_tokens(), result.seconds)));
  if (figures.limits().any()) {
    text += TableLine("goodput", GoodputText(figures, result.seconds));
  }
  if (subject.options.sessions > 0) {
    text += TableLine("saved", StrCat(figures.resumed_tokens(),
                                      " prompt tokens, which the sessions held"));
  }
  return ForTerminal(text + Remarks(result) + TimesTable(subject, result));
}

std::string LoadJson(const LoadSubject& subject, const LoadResult& result) {
  const LoadFigures& figures = result.figures;
  LoadReport report = LoopReport(subject);
  report["seconds"] = result.seconds;
  report["end"] = EndName(result.end);
  report["error"] = Described(result.gone).message();
  report["valid"] = result.void_why.empty();
  report["void_why"] = result.void_why;
  report["calls"] = {
      {"completed", figures.completed()}, {"refused", figures.refused()},
      {"failed", figures.failed()},       {"unfinished", figures.unfinished()},
      {"waited", figures.waited()},       {"unsent", figures.unsent()}};
  report["errors"] = LoadReport::array();
  for (const auto& [kind, count] : figures.errors()) {
    report["errors"].push_back(
        {{"code", kind.first}, {"reason", kind.second}, {"count", count}});
  }
  report["calls_per_second"] = PerSecond(figures.completed(), result.seconds);
  report["generated_tokens"] = figures.generated_tokens();
  report["generated_tokens_per_second"] =
      PerSecond(figures.generated_tokens(), result.seconds);
  report["computed_prompt_tokens"] = figures.prompt_tokens();
  report["computed_prompt_tokens_per_second"] =
      PerSecond(figures.prompt_tokens(), result.seconds);
  report["saved_prompt_tokens"] = figures.resumed_tokens();
  if (figures.limits().any()) {
    LoadReport& goodput = report["goodput"] = LoadReport::object();
    for (const auto& [name, limit] : Limits(figures.limits())) {
      goodput["limits_seconds"][name] = limit;
    }
    goodput["calls"] = figures.good();
    goodput["calls_per_second"] = PerSecond(figures.good(), result.seconds);
  }
  for (const NamedTime& row : Times(subject, result)) {
    report[StrCat(row.name, "_seconds")] = ToReport(*row.times);
  }
  // A name from the server that is not UTF-8 must not throw.
  return report.dump(-1, ' ', false, LoadReport::error_handler_t::replace) + "\n";
}

}  // namespace mnemon::client
