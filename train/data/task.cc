// SPDX-License-Identifier: MIT
#include "train/data/task.h"

#include "train/data/drawn_task.h"
#include "train/data/text_task.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<Task>> LoadTask(const TrainConfig& config) {
  if (config.data.task == TaskKind::kText) return LoadTextTask(config.data);
  return MakeDrawnTask(config.data);
}

}  // namespace mnemon
