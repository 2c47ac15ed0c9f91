// SPDX-License-Identifier: MIT
#include "train/task.h"

#include "train/reverse_task.h"
#include "train/text_task.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<Task>> LoadTask(const TrainConfig& config) {
  if (config.data.task == TaskKind::kReverse) return MakeReverseTask(config.data);
  return LoadTextTask(config.data);
}

}  // namespace mnemon
