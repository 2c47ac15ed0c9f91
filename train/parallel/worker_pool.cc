// SPDX-License-Identifier: MIT
#include "train/parallel/worker_pool.h"

#include <exception>
#include <string>

#include <c10/util/Exception.h>

namespace mnemon {
namespace {

absl::Status Guarded(const WorkerPool::Work& work, int worker) {
  try {
    return work(worker);
  } catch (const c10::Error& error) {
    return absl::InternalError(std::string("libtorch: ") +
                               error.what_without_backtrace());
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace

WorkerPool::WorkerPool(int size) : threads_(size), results_(size) {}

absl::Status WorkerPool::Run(const Work& work) {
  struct Round {
    const Work& work;
    std::vector<absl::Status>& results;
  } round = {work, results_};
  threads_.Run(
      [](void* context, int worker) {
        const auto& [work, results] = *static_cast<Round*>(context);
        results[worker] = Guarded(work, worker);
      },
      &round);
  for (const absl::Status& result : results_) {
    if (!result.ok()) return result;
  }
  return absl::OkStatus();
}

}  // namespace mnemon
