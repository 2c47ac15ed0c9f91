// SPDX-License-Identifier: MIT
#include "server/waiting/callback_threads.h"

#include <atomic>

#include "gtest/gtest.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

class Counts final : public Callback {
 public:
  explicit Counts(std::atomic<int>& count) : count_(count) {}
  void RunCallback() override { ++count_; }

 private:
  std::atomic<int>& count_;
};

TEST(CallbackThreads, EachCallbackRunsOnce) {
  std::atomic<int> count = 0;
  for (const int threads : {1, 3}) {
    count = 0;
    CallbackThreads callbacks(threads);
    std::vector<std::thread> posters;
    for (int p = 0; p < 4; ++p) {
      posters.emplace_back([&] {
        CallbackList batch;
        for (int i = 0; i < 500; ++i) {
          for (int k = 0; k <= i % 40; ++k) batch.Add(std::make_shared<Counts>(count));
          callbacks.Post(batch);
          EXPECT_TRUE(batch.empty());
        }
      });
    }
    for (std::thread& poster : posters) poster.join();
    callbacks.Stop();
    int expected = 0;
    for (int i = 0; i < 500; ++i) expected += 4 * (i % 40 + 1);
    EXPECT_EQ(count, expected);
  }
}

// One that is queued is not queued again; once it is called it can be.
TEST(CallbackThreads, ACallbackIsOnOneList) {
  std::atomic<int> count = 0;
  const auto callback = std::make_shared<Counts>(count);
  CallbackList first, second;
  first.Add(callback);
  first.Add(callback);
  second.Add(callback);
  EXPECT_EQ(first.size(), 1u);
  EXPECT_TRUE(second.empty());
  second.Take(first);
  EXPECT_TRUE(first.empty());
  second.RunAll();
  EXPECT_EQ(count, 1);
  first.Add(callback);
  first.RunAll();
  EXPECT_EQ(count, 2);
}

TEST(CallbackThreads, ListsAreTakenInParts) {
  std::vector<int> order;
  struct Notes final : Callback {
    Notes(std::vector<int>& its_order, int its_number)
        : order(its_order), number(its_number) {}
    void RunCallback() override { order.push_back(number); }
    std::vector<int>& order;
    const int number;
  };
  CallbackList all, part;
  for (int i = 0; i < 7; ++i) all.Add(std::make_shared<Notes>(order, i));
  part.Take(all, 3);
  EXPECT_EQ(part.size(), 3u);
  EXPECT_EQ(all.size(), 4u);
  part.RunAll();
  part.Take(all, 0);
  part.Take(all, 99);
  part.Add(std::make_shared<Notes>(order, 7));
  part.RunAll();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  // A long chain is destroyed one by one.
  for (int i = 0; i < 1'000'000; ++i) all.Add(std::make_shared<Notes>(order, i));
}

TEST(CallbackThreads, LateOnesRunTogetherAfterTheDelay) {
  using Time = std::chrono::steady_clock;
  struct Notes final : Callback {
    void RunCallback() override { at = Time::now(); }
    std::atomic<Time::time_point> at;
  };
  for (const int threads : {1, 3}) {
    CallbackThreads callbacks(threads);
    for (int i = 0; i < 20; ++i) {
      const auto first = std::make_shared<Notes>(), second = std::make_shared<Notes>();
      CallbackList batch;
      const Time::time_point posted = Time::now();
      for (const auto& late : {first, second}) {
        batch.Add(late);
        callbacks.PostLater(batch);
        EXPECT_TRUE(batch.empty());
      }
      const Time::time_point limit = posted + kPatience;
      const auto over = [&] { return Time::now() > limit; };
      while (second->at.load() == Time::time_point() && !over()) {
        std::this_thread::yield();
      }
      EXPECT_FALSE(over());
      EXPECT_GE(first->at.load() - posted, CallbackThreads::kDelay);
    }
  }
}

TEST(CallbackThreads, StopRunsLateOnes) {
  std::atomic<int> count = 0;
  CallbackThreads callbacks(2);
  CallbackList batch;
  batch.Add(std::make_shared<Counts>(count));
  callbacks.PostLater(batch);
  callbacks.Stop();
  EXPECT_EQ(count, 1);
  batch.Add(std::make_shared<Counts>(count));
  callbacks.PostLater(batch);
  EXPECT_EQ(count, 2);
}

TEST(CallbackThreads, AfterStopTheyRunWhereTheyArePosted) {
  std::atomic<int> count = 0;
  CallbackThreads callbacks(2);
  callbacks.Stop();
  callbacks.Post(std::make_shared<Counts>(count));
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace mnemon
