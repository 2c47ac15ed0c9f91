// SPDX-License-Identifier: MIT
// The measured figures of a scenario, each compared with its bar. Bars of time, speed
// and shares of time mean something where nothing else runs; what is counted holds
// anywhere.
#pragma once

#include <string>

#include "bench/figures/report.h"

namespace mnemon::serving {

// One thread.
class BarResults {
 public:
  // `slack` widens every bar: what may be at most L may be L * slack; what has to be at
  // least the share S may miss 1 by slack times as much, or be S / slack if that is
  // more. Where they are not `timed`, bars of time are figures without a bar. `server`
  // names the one that was measured.
  BarResults(std::string scenario, std::string server, double slack, bool timed = true);

  // A bar of what is counted; `value` and `limit` are in `unit`.
  void AtMost(const std::string& what, double value, double limit,
              const std::string& unit);
  // Bars of time. REQUIRES: a share, 0 to 1.
  void TimeAtMost(const std::string& what, double value, double limit,
                  const std::string& unit);
  void ShareAtLeast(const std::string& what, double share, double limit);
  // A bar without slack.
  void Exactly(const std::string& what, double value, double wanted,
               const std::string& unit);
  // A figure without a bar.
  void Note(const std::string& what, double value, const std::string& unit);

  double slack() const { return slack_; }
  bool timed() const { return timed_; }
  // How long to wait for what a bar gives so many seconds: where it is not timed, until
  // only what hangs has not come.
  double Patience(double seconds) const;
  bool passed() const { return missed_ == 0; }
  int missed() const { return missed_; }
  std::string Table() const;
  std::string Json() const;

 private:
  void Add(const std::string& what, double value, const std::string& unit,
           const std::string& bar, bool within);

  const double slack_;
  const bool timed_;
  int missed_ = 0;
  Report report_;
};

}  // namespace mnemon::serving
