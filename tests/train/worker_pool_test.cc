// SPDX-License-Identifier: MIT
#include "train/team.h"

#include <atomic>
#include <stdexcept>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(Team, EveryWorkerTakesPartInEveryRound) {
  for (int size : {1, 2, 5}) {
    Team team(size);
    ASSERT_EQ(team.size(), size);
    std::vector<int> calls(size);
    for (int round = 0; round < 200; ++round) {
      ASSERT_TRUE(team.Run([&](int w) {
                        ++calls[w];
                        return absl::OkStatus();
                      })
                      .ok());
    }
    for (int count : calls) EXPECT_EQ(count, 200);
  }
}

TEST(Team, ErrorsAndExceptionsComeBackAndTheTeamGoesOn) {
  Team team(3);
  absl::Status status = team.Run([](int w) {
    return w == 0 ? absl::OkStatus()
                  : absl::NotFoundError("worker " + std::to_string(w));
  });
  EXPECT_EQ(status.message(), "worker 1");
  status = team.Run([](int w) -> absl::Status {
    if (w == 2) throw std::runtime_error("thrown");
    return absl::OkStatus();
  });
  EXPECT_EQ(status.message(), "thrown");
  EXPECT_TRUE(team.Run([](int) { return absl::OkStatus(); }).ok());
}

}  // namespace
}  // namespace mnemon
