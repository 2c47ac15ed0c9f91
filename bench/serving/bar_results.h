// SPDX-License-Identifier: MIT
// Measured figures of a scenario, each compared with its bar. Bars of time, speed and
// shares of time are meaningful only if nothing else runs; counts hold anywhere.
#pragma once

#include <string>

#include "bench/figures/report.h"

namespace mnemon::serving {

// Used by one thread.
class BarResults {
 public:
  // `slack` widens every bar: an upper limit L becomes L * slack; a required share S
  // may miss 1 by slack times as much, or be S / slack if that is more. Unless `timed`,
  // bars of time become figures without a bar. `server` names the measured server.
  BarResults(std::string scenario, std::string server, double slack, bool timed = true);

  // A bar for a count; `value` and `limit` are in `unit`.
  void AtMost(const std::string& what, double value, double limit,
              const std::string& unit);
  // Bars for times. REQUIRES: a share, 0 to 1.
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
  // How long to wait for something with a bar of `seconds`: if not timed, as long as
  // only a hang can take.
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
