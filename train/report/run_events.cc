// SPDX-License-Identifier: MIT
#include "train/report/run_events.h"

#include <vector>

#include "train/report/event_file.h"

namespace mnemon {

std::string FormatRunEvents(const RunRecord& run) {
  EventFile file(run.began);
  const auto time = [&](int64_t step) {
    return EventTime{.wall_time = run.began + run.SecondsAt(step), .step = step};
  };
  for (const MetricsRow& row : run.metrics) {
    std::vector<Scalar> scalars = {{"loss/train", row.loss},
                                   {"learning_rate", row.learning_rate},
                                   {"gradient_norm", row.gradient_norm}};
    if (row.validation) scalars.push_back({"loss/validation", *row.validation});
    if (row.accuracy) scalars.push_back({"accuracy", *row.accuracy});
    if (row.tokens_per_second) {
      scalars.push_back({"tokens_per_second", *row.tokens_per_second});
    }
    file.AddScalars(time(row.step), scalars);
  }
  for (const SampleRow& row : run.samples)
    file.AddText(time(row.step), "sample", row.text);
  return file.bytes();
}

}  // namespace mnemon
