// SPDX-License-Identifier: MIT
#include "train/parallel/worker_pool.h"

#include <atomic>
#include <stdexcept>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(WorkerPool, EveryWorkerTakesPartInEveryRound) {
  for (int size : {1, 2, 5}) {
    WorkerPool pool(size);
    ASSERT_EQ(pool.size(), size);
    std::vector<int> calls(size);
    for (int round = 0; round < 200; ++round) {
      ASSERT_TRUE(pool.Run([&](int w) {
                        ++calls[w];
                        return absl::OkStatus();
                      })
                      .ok());
    }
    for (int count : calls) EXPECT_EQ(count, 200);
  }
}

TEST(WorkerPool, ErrorsAndExceptionsComeBackAndThePoolGoesOn) {
  WorkerPool pool(3);
  absl::Status status = pool.Run([](int w) {
    return w == 0 ? absl::OkStatus()
                  : absl::NotFoundError("worker " + std::to_string(w));
  });
  EXPECT_EQ(status.message(), "worker 1");
  status = pool.Run([](int w) -> absl::Status {
    if (w == 2) throw std::runtime_error("thrown");
    return absl::OkStatus();
  });
  EXPECT_EQ(status.message(), "thrown");
  EXPECT_TRUE(pool.Run([](int) { return absl::OkStatus(); }).ok());
}

}  // namespace
}  // namespace mnemon
