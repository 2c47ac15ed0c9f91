// SPDX-License-Identifier: MIT
#include "server/state/dead_key_filter.h"

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "server/state/store_key.h"

namespace mnemon {
namespace {

using Filter = rocksdb::CompactionFilter;

Filter::Decision Decide(const Filter& filter, const std::string& id) {
  std::string changed, skip_until;
  return filter.FilterV2(0, StoreKey(StoreTable::kJournal, id, "12345678"),
                         Filter::ValueType::kValue, "", &changed, &skip_until);
}

TEST(DeadKeyFilter, OneThatIsAtWorkAsksTheNewestOwner) {
  const auto live = std::make_shared<LiveSessions>();
  const std::unique_ptr<Filter> filter =
      MakeDeadKeyFilters(StoreTable::kJournal, live)->CreateCompactionFilter({});
  EXPECT_EQ(Decide(*filter, "a"), Filter::Decision::kKeep);
  live->Set([](std::string_view id) { return id == "a"; });
  EXPECT_EQ(Decide(*filter, "a"), Filter::Decision::kKeep);
  EXPECT_EQ(Decide(*filter, "b"), Filter::Decision::kRemove);
  live->Set(nullptr);
  EXPECT_EQ(Decide(*filter, "b"), Filter::Decision::kKeep);
}

TEST(LiveSessions, AnOwnerIsNotAskedOnceAnotherIsSet) {
  LiveSessions live;
  std::atomic<bool> set{false}, set_meanwhile{false};
  std::promise<void> asked;
  live.Set([&](std::string_view) {
    asked.set_value();
    // As long as Set may be expected to take, if it did not wait.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (!set && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    set_meanwhile = set.load();
    return true;
  });
  std::thread compaction([&] { EXPECT_TRUE(live.Contains("a")); });
  asked.get_future().wait();
  live.Set(nullptr);
  set = true;
  compaction.join();
  EXPECT_FALSE(set_meanwhile);
}

}  // namespace
}  // namespace mnemon
