// SPDX-License-Identifier: MIT
// Attacks on a server from outside, one at a time and together: what the server still
// does during and after them.
#include "bench/serving/scenarios/wire.h"

#include <algorithm>

#include "base/process/command_line.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon::serving {
namespace {

constexpr double kAttack = 20;       // seconds
constexpr double kQuickAttack = 1;   // seconds
constexpr double kUnreadLog = 6;     // times as long
constexpr char kTogether[] = "all";  // names beside those of single attacks
constexpr char kLog[] = "unread-log";

absl::Status AttackAlone(const ScenarioOptions& options, const wire::Attack& attack,
                         double seconds, BarResults& results) {
  MNEMON_ASSIGN_OR_RETURN(
      const auto attacked,
      Attacked::Start(options, attack.name, attack.descriptors, results));
  wire::AttackTally tally;
  Watch watch(attacked->server(), results);
  attack.run(attacked->PlanFor(seconds), tally);
  const Watched watched = watch.Stop();
  NoteTally(attack.name, tally, results);
  attacked->CompareDuring(watched, attack.leaves_room, results);
  attacked->CompareAfter(results);
  return absl::OkStatus();
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const wire::Attack& attack : wire::Attacks()) names.push_back(attack.name);
  names.insert(names.end(), {kTogether, kLog});
  return names;
}

absl::Status CheckNames(const std::vector<std::string>& names) {
  const std::vector<std::string> known = AllNames();
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string& one : known) list += " " + one;
    return UsageError(StrCat("unknown attack '", name, "': the attacks are", list));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunWire(const ScenarioOptions& options, BarResults& results) {
  const std::vector<std::string> names =
      options.attacks.empty() ? AllNames() : options.attacks;
  MNEMON_RETURN_IF_ERROR(CheckNames(names));
  const double seconds = options.seconds > 0 ? options.seconds
                         : options.quick     ? kQuickAttack
                                             : kAttack;
  for (const std::string& name : names) {
    if (name == kTogether) {
      // Never shorter: at first no address is known, and honest clients lose most.
      MNEMON_RETURN_IF_ERROR(AttackTogether(
          options, options.seconds > 0 || !results.timed() ? seconds : kAttack,
          results));
    } else if (name == kLog) {
      MNEMON_RETURN_IF_ERROR(LeaveLogUnread(options, kUnreadLog * seconds, results));
    }
    for (const wire::Attack& attack : wire::Attacks()) {
      if (name != attack.name) continue;
      MNEMON_RETURN_IF_ERROR(AttackAlone(options, attack, seconds, results));
    }
  }
  return absl::OkStatus();
}

}  // namespace mnemon::serving
