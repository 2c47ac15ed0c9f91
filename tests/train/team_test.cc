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

TEST(PartOf, CoversEverythingOnceAndNeverLeavesTheFirstEmpty) {
  for (int64_t count : {0, 1, 2, 7, 64}) {
    for (int parts : {1, 2, 3, 16}) {
      int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        Part range = PartOf(count, part, parts);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size(), (count + parts - 1) / parts);
        next = range.end;
      }
      EXPECT_EQ(next, count);
      EXPECT_EQ(PartOf(count, 0, parts).size() > 0, count > 0);
    }
  }
}

}  // namespace
}  // namespace mnemon
