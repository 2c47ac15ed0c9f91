// SPDX-License-Identifier: MIT
#include "bench/serving/bar_results.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_format.h"
#include "bench/serving/calls.h"

namespace mnemon::serving {
namespace {

constexpr Column kColumns[] = {{"what", "what"},
                               {"value", "value", 3},
                               {"unit", "unit"},
                               {"bar", "bar"},
                               {"result", "result"}};

}  // namespace

BarResults::BarResults(std::string scenario, std::string server, double slack,
                       bool timed)
    : slack_(slack), timed_(timed) {
  double load = 0;
  getloadavg(&load, 1);
  report_.run.Set("scenario", std::move(scenario));
  report_.run.Set("server", std::move(server));
  report_.run.Set("load_average", load);
  report_.run.Set("slack", slack);
  report_.run.Set("timed", timed);
}

void BarResults::AtMost(const std::string& what, double value, double limit,
                        const std::string& unit) {
  limit *= slack_;
  Add(what, value, unit, absl::StrFormat("<= %g", limit), value <= limit);
}

void BarResults::TimeAtMost(const std::string& what, double value, double limit,
                            const std::string& unit) {
  timed_ ? AtMost(what, value, limit, unit) : Note(what, value, unit);
}

void BarResults::ShareAtLeast(const std::string& what, double share, double limit) {
  if (!timed_) return Note(what, share, "");
  limit = std::max(limit / slack_, 1 - (1 - limit) * slack_);
  Add(what, share, "", absl::StrFormat(">= %.2f", limit), share >= limit);
}

void BarResults::Exactly(const std::string& what, double value, double wanted,
                         const std::string& unit) {
  Add(what, value, unit, absl::StrFormat("= %g", wanted), value == wanted);
}

void BarResults::Note(const std::string& what, double value, const std::string& unit) {
  Add(what, value, unit, "", true);
}

double BarResults::Patience(double seconds) const {
  return timed_ ? seconds : kHangs.count();
}

void BarResults::Add(const std::string& what, double value, const std::string& unit,
                     const std::string& bar, bool within) {
  missed_ += within ? 0 : 1;
  Record record;
  record.Set("what", what);
  record.Set("value", value);
  record.Set("unit", unit);
  record.Set("bar", bar);
  record.Set("result", std::string(bar.empty() ? "" : within ? "pass" : "MISSED"));
  report_.results.push_back(std::move(record));
}

std::string BarResults::Table() const {
  Report with_passed = report_;
  with_passed.run.Set("passed", passed());
  return ToTable(with_passed, kColumns);
}

std::string BarResults::Json() const {
  Report with_passed = report_;
  with_passed.run.Set("passed", passed());
  return ToJson(with_passed);
}

}  // namespace mnemon::serving
