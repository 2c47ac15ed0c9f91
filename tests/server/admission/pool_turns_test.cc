// SPDX-License-Identifier: MIT
#include "server/admission/pool_turns.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/patience.h"

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

TEST_F(PoolTurnsTest, AreWantedByThoseThatWait) {
  PoolTurns::Member first, second;
  EXPECT_FALSE(turns.Wanted());
  std::thread waits;
  {
    const PoolTurns::Piece piece(turns, first);
    EXPECT_FALSE(turns.Wanted());
    waits = std::thread([&] {
      Work(second, milliseconds(1));
      turns.Leave(second);
    });
    while (!turns.Wanted()) std::this_thread::yield();
  }
  turns.Leave(first);
  waits.join();
  EXPECT_FALSE(turns.Wanted());
}

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

// One that has used less than the next that waits may keep its turn for a moment, at
// its own expense; in vain only as long as a share of what it works.
TEST_F(PoolTurnsTest, APauseMayKeepTheTurn) {
  PoolTurns::Member fast, slow;
  std::atomic<bool> stop = false;
  std::atomic<int> slow_pieces = 0;
  Work(fast, milliseconds(1000));
  EXPECT_EQ(turns.Patience(fast).count(), 0);  // nobody waits
  EXPECT_EQ(turns.Patience(slow).count(), 0);  // has no turn
  std::thread other([&] {
    while (!stop) {
      Work(slow, milliseconds(100));
      ++slow_pieces;
    }
    turns.Leave(slow);
  });
  // Until it has the turn with the other waiting after it, having used less.
  const auto owed = [&] {
    while (turns.Patience(fast).count() == 0) Work(fast, milliseconds(1));
  };
  owed();
  EXPECT_EQ(turns.Patience(fast), milliseconds(1));
  // A pause with work at its end costs time of the turn, and nothing else.
  const int before = slow_pieces;
  int pauses = 0;
  for (; pauses < 1000 && slow_pieces == before; ++pauses) {
    if (turns.Patience(fast).count() > 0) {
      turns.Paused(fast, milliseconds(1), /*in_vain=*/false);
    }
    Work(fast, milliseconds(1));
  }
  EXPECT_LE(pauses, 52);
  // Saved up: four in vain.
  owed();
  int in_vain = 0;
  for (; turns.Patience(fast).count() > 0; ++in_vain) {
    turns.Paused(fast, turns.Patience(fast), /*in_vain=*/true);
  }
  EXPECT_LE(in_vain, 4);
  EXPECT_GE(in_vain, 1);
  stop = true;
  turns.Leave(fast);
  other.join();
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
    ASSERT_TRUE(Eventually([&] { return turns.Wanted(); }));
    turns.Leave(other);
    EXPECT_TRUE(turns.Wanted());
    EXPECT_FALSE(in);
  }
  turns.Leave(a);
  waits.join();
  EXPECT_TRUE(in);
  turns.Leave(b);
}

}  // namespace
}  // namespace mnemon
