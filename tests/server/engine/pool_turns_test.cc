// SPDX-License-Identifier: MIT
#include "server/engine/pool_turns.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

// Two members that always have work; pieces of a fast and of a slow one. Who has the
// turn moves the clock and may look at both.
TEST(PoolTurns, AreFairByTime) {
  FakeClock clock;
  PoolTurns turns(clock);
  struct Runner {
    PoolTurns::Member member;
    milliseconds piece;
    milliseconds used{0};
  };
  Runner runners[2] = {{.piece = milliseconds(1)}, {.piece = milliseconds(40)}};
  milliseconds most_apart{0};
  std::optional<milliseconds> apart_at_first;  // once both have had a turn
  std::vector<std::thread> threads;
  for (Runner& runner : runners) {
    threads.emplace_back([&] {
      for (bool done = false; !done;) {
        turns.Acquire(runner.member);
        clock.Advance(runner.piece);
        runner.used += runner.piece;
        const milliseconds apart = runners[0].used - runners[1].used;
        const bool both = runners[0].used.count() > 0 && runners[1].used.count() > 0;
        if (both && !apart_at_first) apart_at_first = apart;
        done = runners[0].used + runners[1].used > milliseconds(20000) &&
               std::min(runners[0].used, runners[1].used) > milliseconds(4000);
        if (both && !done) {
          most_apart = std::max(
              most_apart, milliseconds(std::abs((apart - *apart_at_first).count())));
        }
      }
      turns.Leave(runner.member);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Each is at most one of the other's pieces behind, on either side.
  EXPECT_LE(most_apart, milliseconds(2 * 40 + 2));
}

// One that has worked alone for long owes a newcomer nothing.
TEST(PoolTurns, TimeAloneIsNoDebt) {
  FakeClock clock;
  PoolTurns turns(clock);
  PoolTurns::Member busy, late;
  turns.Acquire(busy);
  clock.Advance(milliseconds(100000));
  std::atomic<bool> stop = false;
  std::atomic<int> pieces = 0;
  std::thread joins([&] {
    while (!stop) {
      turns.Acquire(late);
      clock.Advance(milliseconds(1));
      ++pieces;
    }
    turns.Leave(late);
  });
  int own = 0;
  for (; own < 100 || pieces < 100; ++own) {
    turns.Acquire(busy);
    clock.Advance(milliseconds(1));
  }
  stop = true;
  turns.Leave(busy);
  joins.join();
  // Its first pieces may all come before the newcomer waits, but not the other way
  // round.
  EXPECT_LE(pieces, own + 5);
}

// Nor does one that has worked alone, and paused, owe those that came meanwhile.
TEST(PoolTurns, TimeAloneBeforeAPauseIsNoDebt) {
  constexpr int kMostPieces = 1000000;
  FakeClock clock;
  PoolTurns turns(clock);
  PoolTurns::Member busy, other;
  turns.Acquire(busy);
  clock.Advance(milliseconds(1000) * kMostPieces);
  turns.Leave(busy);
  turns.Acquire(other);
  std::atomic<bool> back = false;
  std::thread comes_back([&] {
    turns.Acquire(busy);
    back = true;
    turns.Leave(busy);
  });
  for (int pieces = 0; !back && pieces < kMostPieces; ++pieces) {
    clock.Advance(milliseconds(1));
    turns.Acquire(other);
    std::this_thread::yield();
  }
  EXPECT_TRUE(back);
  turns.Leave(other);
  comes_back.join();
}

TEST(PoolTurns, LeavingWithoutTheTurnIsNothing) {
  FakeClock clock;
  PoolTurns turns(clock);
  PoolTurns::Member a, b;
  turns.Leave(a);
  turns.Acquire(a);
  turns.Leave(b);
  turns.Acquire(a);
  turns.Leave(a);
  turns.Acquire(b);
  turns.Leave(b);
}

}  // namespace
}  // namespace mnemon
