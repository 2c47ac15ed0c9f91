// SPDX-License-Identifier: MIT
#include "train/data/loader.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

// Token i has value i, so a window shows where it starts.
std::vector<int32_t> Counting(int64_t size) {
  std::vector<int32_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

DataOptions Options(LoaderKind kind, int64_t length, int64_t batch,
                    bool jitter = true) {
  return {.loader = kind, .seq_len = length, .batch = batch, .jitter = jitter};
}

std::unique_ptr<Loader> Make(const std::vector<int32_t>& tokens,
                             const DataOptions& options, uint64_t seed = 7,
                             LoaderUse use = LoaderUse::kTraining) {
  auto loader = MakeLoader(std::span(tokens), options, use, seed);
  EXPECT_TRUE(loader.ok()) << loader.status();
  return *std::move(loader);
}

std::vector<int64_t> Starts(const Batch& batch) {
  std::vector<int64_t> starts;
  for (int64_t row = 0; row < batch.rows; ++row) {
    starts.push_back(batch.inputs[row * batch.columns]);
  }
  return starts;
}

void ExpectConsecutive(const Batch& batch) {
  ASSERT_EQ(static_cast<int64_t>(batch.inputs.size()), batch.rows * batch.columns);
  ASSERT_EQ(batch.inputs.size(), batch.targets.size());
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    ASSERT_EQ(batch.targets[i], batch.inputs[i] + 1);
    if (i % batch.columns != 0) {
      ASSERT_EQ(batch.inputs[i], batch.inputs[i - 1] + 1);
    }
  }
}

// Updates per epoch of the reference experiments on Tiny Shakespeare's training part.
TEST(Loader, ReferenceCounts) {
  const std::vector<int32_t> tokens(1003854);
  const auto count = [&](LoaderKind kind, int64_t length, int64_t batch) {
    return Make(tokens, Options(kind, length, batch))->batches_per_pass();
  };
  EXPECT_EQ(count(LoaderKind::kShuffled, 128, 64), 123);
  EXPECT_EQ(count(LoaderKind::kShuffled, 64, 80), 197);
  EXPECT_EQ(count(LoaderKind::kShuffled, 128, 16), 491);
  EXPECT_EQ(count(LoaderKind::kShuffled, 512, 16), 123);
  EXPECT_EQ(count(LoaderKind::kSequential, 2, 32), 15685);
}

TEST(ShuffledLoader, EveryWindowOncePerPassAndThePartialBatchIsKept) {
  const std::vector<int32_t> tokens = Counting(1 + 23 * 10 + 4);
  auto loader = Make(tokens, Options(LoaderKind::kShuffled, 10, 5, /*jitter=*/false));
  ASSERT_EQ(loader->batches_per_pass(), 5);
  std::vector<int64_t> first_pass;
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<int64_t> starts;
    for (int i = 0; i < 5; ++i) {
      const Batch batch = loader->Next().value();
      EXPECT_EQ(batch.rows, i < 4 ? 5 : 3);
      EXPECT_TRUE(batch.fresh);
      ExpectConsecutive(batch);
      for (int64_t start : Starts(batch)) starts.push_back(start);
    }
    EXPECT_FALSE(std::is_sorted(starts.begin(), starts.end()));
    if (pass == 0) first_pass = starts;
    if (pass == 1) {
      EXPECT_NE(starts, first_pass);
    }
    std::sort(starts.begin(), starts.end());
    for (int64_t i = 0; i < 23; ++i) EXPECT_EQ(starts[i], i * 10);
  }
}

TEST(ShuffledLoader, JitterMovesEachWindowWithinBounds) {
  const std::vector<int32_t> tokens = Counting(1 + 200 * 8 + 3);
  auto loader = Make(tokens, Options(LoaderKind::kShuffled, 8, 200));
  std::set<int64_t> offsets;
  for (int pass = 0; pass < 5; ++pass) {
    const Batch batch = loader->Next().value();
    ExpectConsecutive(batch);
    std::vector<int64_t> starts = Starts(batch);
    std::set<int64_t> windows;
    for (int64_t start : starts) {
      windows.insert(start / 8);
      offsets.insert(start % 8);
      EXPECT_LE(start, 200 * 8 + 3 - 8);
    }
    EXPECT_EQ(windows.size(), 200u);
  }
  EXPECT_EQ(offsets.size(), 8u);
}

TEST(ShuffledLoader, OrderIsAFunctionOfSeedAndPass) {
  const std::vector<int32_t> tokens = Counting(1000);
  const DataOptions options = Options(LoaderKind::kShuffled, 7, 4);
  auto one = Make(tokens, options, 1), again = Make(tokens, options, 1);
  auto other = Make(tokens, options, 2);
  EXPECT_EQ(one->Get(3, 2)->inputs, again->Get(3, 2)->inputs);
  EXPECT_NE(one->Get(3, 2)->inputs, other->Get(3, 2)->inputs);
  EXPECT_NE(one->Get(3, 2)->inputs, one->Get(4, 2)->inputs);

  for (int i = 0; i < 77; ++i) ASSERT_TRUE(one->Next().ok());
  again->Seek(one->cursor());
  EXPECT_EQ(one->cursor().pass, 77 / one->batches_per_pass());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(one->Next()->inputs, again->Next()->inputs);
}

// Held against drift: runs of older checkpoints must find their order again.
TEST(ShuffledLoader, OrderIsPortable) {
  const std::vector<int32_t> tokens = Counting(81);
  auto loader = Make(tokens, Options(LoaderKind::kShuffled, 10, 8, false), 1);
  EXPECT_THAT(Starts(*loader->Get(0, 0)),
              ::testing::ElementsAre(50, 20, 10, 60, 0, 30, 40, 70));
}

TEST(ShuffledLoader, ValidationKeepsOrderAndStarts) {
  const std::vector<int32_t> tokens = Counting(100);
  auto loader =
      Make(tokens, Options(LoaderKind::kShuffled, 9, 11), 3, LoaderUse::kValidation);
  EXPECT_THAT(Starts(*loader->Get(0, 0)),
              ::testing::ElementsAre(0, 9, 18, 27, 36, 45, 54, 63, 72, 81, 90));
}

// Shards of 10 windows: batches of 4 go over their ends.
TEST(ShuffledLoader, StaysLocalInShards) {
  const std::vector<int32_t> tokens = Counting(1 + 95 * 10);
  DataOptions options = Options(LoaderKind::kShuffled, 10, 4, /*jitter=*/false);
  options.shuffle_shard = 109;
  auto loader = Make(tokens, options);
  std::vector<std::vector<int64_t>> passes(2);
  for (std::vector<int64_t>& shards : passes) {
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < loader->batches_per_pass(); ++i) {
      for (const int64_t start : Starts(*loader->Next())) {
        starts.push_back(start);
        const int64_t shard = start / 100;
        if (shards.empty() || shards.back() != shard) shards.push_back(shard);
      }
    }
    EXPECT_EQ(shards.size(), 10u);
    std::sort(starts.begin(), starts.end());
    ASSERT_EQ(starts.size(), 95u);
    for (int64_t i = 0; i < 95; ++i) EXPECT_EQ(starts[i], i * 10);
  }
  EXPECT_NE(passes[0], passes[1]);
}

TEST(ShuffledLoader, ACursorIsEnoughInShards) {
  const std::vector<int32_t> tokens = Counting(1000);
  DataOptions options = Options(LoaderKind::kShuffled, 7, 4);
  options.shuffle_shard = 70;
  auto walked = Make(tokens, options);
  for (int i = 0; i < 47; ++i) ASSERT_TRUE(walked->Next().ok());
  auto resumed = Make(tokens, options);
  resumed->Seek(walked->cursor());
  for (int i = 0; i < 80; ++i) {
    ASSERT_EQ(walked->Next()->inputs, resumed->Next()->inputs);
  }
}

TEST(ShuffledLoader, ALargeShardIsTheOrderWithoutShards) {
  const std::vector<int32_t> tokens = Counting(1000);
  DataOptions options = Options(LoaderKind::kShuffled, 7, 4);
  auto before = Make(tokens, options);
  options.shuffle_shard = 1000;
  auto one = Make(tokens, options);
  options.shuffle_shard = 500;
  auto two = Make(tokens, options);
  EXPECT_EQ(one->Get(1, 3)->inputs, before->Get(1, 3)->inputs);
  EXPECT_NE(two->Get(1, 3)->inputs, before->Get(1, 3)->inputs);
}

TEST(SequentialLoader, ParallelStreamsOfConsecutiveWindows) {
  // Three streams of 11 tokens, the 34th and 35th are dropped.
  const std::vector<int32_t> tokens = Counting(35);
  auto loader = Make(tokens, Options(LoaderKind::kSequential, 4, 3));
  ASSERT_EQ(loader->batches_per_pass(), 3);
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < 3; ++i) {
      const Batch batch = loader->Next().value();
      EXPECT_EQ(batch.rows, 3);
      EXPECT_EQ(batch.columns, i < 2 ? 4 : 2);
      EXPECT_EQ(batch.fresh, i == 0);
      ExpectConsecutive(batch);
      EXPECT_THAT(Starts(batch), ::testing::ElementsAre(4 * i, 11 + 4 * i, 22 + 4 * i));
    }
  }
}

TEST(Loader, TooShortTextsAreRefusedByName) {
  const auto refused = [](int64_t size, const DataOptions& options) {
    const std::vector<int32_t> tokens = Counting(size);
    return MakeLoader(std::span(tokens), options, LoaderUse::kTraining, 1).status();
  };
  const absl::Status shuffled = refused(8, Options(LoaderKind::kShuffled, 8, 4));
  EXPECT_THAT(std::string(shuffled.message()), ::testing::HasSubstr("data.seq_len"));
  EXPECT_TRUE(refused(9, Options(LoaderKind::kShuffled, 8, 4)).ok());
  const absl::Status streams = refused(7, Options(LoaderKind::kSequential, 8, 4));
  EXPECT_THAT(std::string(streams.message()), ::testing::HasSubstr("data.batch"));
  EXPECT_TRUE(refused(8, Options(LoaderKind::kSequential, 8, 4)).ok());
  EXPECT_FALSE(refused(0, Options(LoaderKind::kShuffled, 8, 4)).ok());
}

}  // namespace
}  // namespace mnemon
