// SPDX-License-Identifier: MIT
#include "train/fit/resume_check.h"

#include <vector>

#include "base/strings.h"

namespace mnemon {
namespace {

bool FreeToChange(const std::string& key) {
  return key == "out" || key == "data.text" || key == "train.keep" ||
         key == "train.from" || key.rfind("sample.", 0) == 0;
}

bool MayGrow(const TrainConfig& before, const TrainConfig& now,
             const TrainingState& state) {
  return before.schedule.kind != ScheduleKind::kCosine && before.duration.steps > 0 &&
         now.duration.steps >= state.steps;
}

}  // namespace

absl::Status CheckSameRun(const TrainConfig& before, const TrainConfig& now,
                          const TrainingState& state, const std::string& text_sha256) {
  std::vector<std::string> differences;
  const auto old_fields = TrainFields(before);
  const auto new_fields = TrainFields(now);
  for (size_t i = 0; i < old_fields.size(); ++i) {
    const auto& [key, old_value] = old_fields[i];
    const std::string& new_value = new_fields[i].second;
    if (old_value == new_value || FreeToChange(key)) continue;
    if (key == "train.steps" && MayGrow(before, now, state)) continue;
    differences.push_back(StrCat(key, " was ", old_value, " and is now ", new_value));
  }
  if (text_sha256 != state.text_sha256) {
    differences.push_back("the content of data.text has changed");
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat("this run began with another configuration; give the same, or another ",
             "--out for a new run:\n  ", StrJoin(differences, "\n  ")));
}

}  // namespace mnemon
