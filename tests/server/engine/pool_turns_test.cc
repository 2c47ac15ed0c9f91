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

// Who has the turn moves the clock.
class PoolTurnsTest : public testing::Test {
 protected:
  void Work(PoolTurns::Member& member, milliseconds time) {
    const PoolTurns::Piece piece(turns, member);
    clock.Advance(time);
  }

  FakeClock clock;
  PoolTurns turns{clock};
};

// Two members that always have work; pieces of a fast and of a slow one. Who has the
// turn may look at both.
TEST_F(PoolTurnsTest, AreFairByTime) {
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
        Work(runner.member, runner.piece);
        // Between two pieces, which is not charged.
        clock.Advance(milliseconds(1));
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
TEST_F(PoolTurnsTest, TimeAloneIsNoDebt) {
  PoolTurns::Member busy, late;
  Work(busy, milliseconds(100000));
  std::atomic<bool> stop = false;
  std::atomic<int> pieces = 0;
  std::thread joins([&] {
    while (!stop) {
      Work(late, milliseconds(1));
      ++pieces;
    }
    turns.Leave(late);
  });
  int own = 0;
  for (; own < 100 || pieces < 100; ++own) {
    Work(busy, milliseconds(1));
  }
  stop = true;
  turns.Leave(busy);
  joins.join();
  // Its first pieces may all come before the newcomer waits, but not the other way
  // round.
  EXPECT_LE(pieces, own + 5);
}

// Nor does one that has worked alone, and paused, owe those that came meanwhile.
TEST_F(PoolTurnsTest, TimeAloneBeforeAPauseIsNoDebt) {
  constexpr int kMostPieces = 1000000;
  PoolTurns::Member busy, other;
  Work(busy, milliseconds(1000) * kMostPieces);
  turns.Leave(busy);
  Work(other, milliseconds(1));
  std::atomic<bool> back = false;
  std::thread comes_back([&] {
    Work(busy, milliseconds(1));
    back = true;
    turns.Leave(busy);
  });
  for (int pieces = 0; !back && pieces < kMostPieces; ++pieces) {
    Work(other, milliseconds(1));
    std::this_thread::yield();
  }
  EXPECT_TRUE(back);
  turns.Leave(other);
  comes_back.join();
}

TEST_F(PoolTurnsTest, LeavingWithoutTheTurnIsNothing) {
  PoolTurns::Member a, b, other;
  turns.Leave(other);
  std::atomic<bool> in = false;
  std::thread waits;
  {
    const PoolTurns::Piece piece(turns, a);
    waits = std::thread([&] {
      const PoolTurns::Piece second(turns, b);
      in = true;
    });
    for (int i = 0; i < 50; ++i) {
      turns.Leave(other);
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_FALSE(in);
  }
  turns.Leave(a);
  waits.join();
  EXPECT_TRUE(in);
  turns.Leave(b);
}

}  // namespace
}  // namespace mnemon
