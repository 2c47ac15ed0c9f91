// SPDX-License-Identifier: MIT
#include "train/task.h"

#include "train/drawn_task.h"
#include "train/text_task.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<Task>> LoadTask(const TrainConfig& config) {
  if (config.data.task == TaskKind::kText) return LoadTextTask(config.data);
  return MakeDrawnTask(config.data);
}

}  // namespace mnemon
