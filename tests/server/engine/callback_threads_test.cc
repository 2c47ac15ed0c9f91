// SPDX-License-Identifier: MIT
#include "server/engine/callback_threads.h"

#include <atomic>

#include "gtest/gtest.h"

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
        std::vector<std::shared_ptr<Callback>> batch;
        for (int i = 0; i < 500; ++i) {
          for (int k = 0; k <= i % 40; ++k)
            batch.push_back(std::make_shared<Counts>(count));
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

TEST(CallbackThreads, AfterStopTheyRunWhereTheyArePosted) {
  std::atomic<int> count = 0;
  CallbackThreads callbacks(2);
  callbacks.Stop();
  callbacks.Post(std::make_shared<Counts>(count));
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace mnemon
