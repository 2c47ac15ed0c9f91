// SPDX-License-Identifier: MIT
#include "model/compute/gradient/team.h"

#include <atomic>
#include <new>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::Each;

TEST(Team, EverySequenceAndEveryShareIsOfOneMember) {
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers);
    Phases phases(pool);
    for (const bool all : {false, true}) {
      for (const int64_t count : {1, 5, 14, 16, 50}) {
        std::vector<int> sequences(count, 0), shares(count, 0), columns(count, 0);
        for (int w = 0; w < workers; ++w) {
          const Team team(phases, w, all);
          const Part own = team.SequencesOf(count);
          for (int64_t i = own.begin; i < own.end; ++i) ++sequences[i];
          const Part share = team.ShareOf(own);
          for (int64_t i = share.begin; i < share.end; ++i) ++shares[i];
          const Part panels = team.ColumnsOf(count);
          EXPECT_TRUE(panels.size() == 0 || panels.begin % kColumnPanel == 0);
          for (int64_t i = panels.begin; i < panels.end; ++i) ++columns[i];
        }
        EXPECT_THAT(columns, Each(all ? 1 : workers));
        EXPECT_THAT(sequences, Each(all ? workers : 1));
        EXPECT_THAT(shares, Each(1));
      }
    }
  }
}

// A phase of any member comes after the previous phases of all members.
TEST(Team, MembersMeetAfterEveryPhase) {
  ThreadPool pool(4);
  Phases phases(pool);
  std::atomic<int> done = 0, early = 0;
  const auto run = phases.Run([&](int worker) {
    const Team team(phases, worker, true);
    team.Run([&] {
      for (int phase = 0; phase < 1000; ++phase) {
        team.Do([&] {
          if (done < 4 * phase) ++early;
          ++done;
        });
      }
    });
  });
  EXPECT_TRUE(run.ok()) << run;
  EXPECT_EQ(done, 4000);
  EXPECT_EQ(early, 0);
}

// Whichever thread it is in, and whichever phase: the others do not wait for it.
TEST(Team, AnAllocationThatFailsEndsTheRunAlone) {
  for (const int workers : {1, 2, 3, 4}) {
    ThreadPool pool(workers);
    Phases phases(pool);
    for (const bool all : {false, true}) {
      for (int failing = 0; failing < 3 * workers; ++failing) {
        std::atomic<int> last = 0;
        const auto work = [&](bool fails) {
          return phases.Run([&, fails](int worker) {
            const Team team(phases, worker, all);
            team.Run([&] {
              for (int phase = 0; phase < 3; ++phase) {
                team.Do([&] {
                  if (fails && failing == phase * workers + worker) {
                    throw std::bad_alloc();
                  }
                });
              }
            });
            phases.Do(worker, [&] { ++last; });
          });
        };
        EXPECT_TRUE(absl::IsResourceExhausted(work(true)));
        EXPECT_EQ(last, 0);
        EXPECT_TRUE(work(false).ok());
        EXPECT_EQ(last, workers);
      }
    }
  }
}

}  // namespace
}  // namespace mnemon
