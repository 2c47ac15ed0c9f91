// SPDX-License-Identifier: MIT
#include "train/parallel/gradient_sum.h"

#include <cmath>
#include <numeric>
#include <random>

#include <ATen/ops/empty.h>

#include "gtest/gtest.h"
#include "model/compute/each_target.h"
#include "train/parallel/flat_operations.h"

namespace mnemon {
namespace {

std::vector<at::Tensor> Shards(int count, int64_t size) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<at::Tensor> shards;
  for (int s = 0; s < count; ++s) {
    shards.push_back(at::empty({size}, at::kFloat));
    for (int64_t i = 0; i < size; ++i) {
      shards.back().data_ptr<float>()[i] = normal(random) * std::exp(normal(random));
    }
  }
  return shards;
}

// The numbers 0 .. count - 1: halves of a power of two.
std::vector<int64_t> All(const GradientSum& sum) {
  std::vector<int64_t> blocks(sum.blocks());
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

float Tree(const std::vector<at::Tensor>& shards, int64_t i, int begin, int end) {
  if (end - begin == 1) return shards[begin].data_ptr<float>()[i];
  const int middle = begin + (end - begin + 1) / 2;
  return Tree(shards, i, begin, middle) + Tree(shards, i, middle, end);
}

TEST(GradientSum, IsAFixedTreeWhateverTheThreadsAndTheInstructions) {
  for (const int count : {1, 2, 3, 4, 5, 8}) {
    for (const int64_t size : {int64_t{1}, int64_t{37}, 2 * kFlatBlock + 100}) {
      const std::vector<at::Tensor> shards = Shards(count, size);
      double first_norm = 0;
      ForEachTarget([&] {
        for (const int workers : {1, 2, 3}) {
          std::vector<at::Tensor> copies;
          for (const at::Tensor& shard : shards) copies.push_back(shard.clone());
          GradientSum sum(copies);
          for (int w = workers - 1; w >= 0; --w) sum.Add(count, All(sum), w, workers);
          double squares = 0;
          for (int64_t i = 0; i < size; ++i) {
            const float found = copies[0].data_ptr<float>()[i];
            ASSERT_EQ(found, Tree(shards, i, 0, count)) << count << " " << i;
            squares += double{found} * found;
          }
          if (first_norm == 0) first_norm = sum.Norm();
          EXPECT_EQ(sum.Norm(), first_norm);
          EXPECT_NEAR(sum.Norm(), std::sqrt(squares), 1e-5 * std::sqrt(squares));
        }
      });
    }
  }
}

// Buffers after the used ones have gradients of an earlier batch.
TEST(GradientSum, LeavesOutShardsThatHadNoRows) {
  const std::vector<at::Tensor> shards = Shards(4, 100);
  const at::Tensor expected = shards[0] + shards[1] + shards[2];
  GradientSum sum(shards);
  sum.Add(3, All(sum), 0, 1);
  EXPECT_TRUE(shards[0].equal(expected));
}

TEST(GradientSum, ANormThatIsNotFiniteIsSeen) {
  const std::vector<at::Tensor> shards = Shards(2, 100);
  shards[1].data_ptr<float>()[99] = NAN;
  GradientSum sum(shards);
  sum.Add(2, All(sum), 0, 1);
  EXPECT_TRUE(std::isnan(sum.Norm()));
}

TEST(ClipScale, ScalesDownOnlyWhatIsTooLong) {
  EXPECT_EQ(ClipScale(5, 10), 1);
  EXPECT_EQ(ClipScale(5, 0), 1);
  EXPECT_DOUBLE_EQ(ClipScale(5, 1), 1 / (5 + 1e-6));
}

// The update rules have the same bits on every instruction set, in whatever parts.
TEST(FlatOperations, EqualsOnEveryTarget) {
  constexpr int64_t kSize = 1000;
  const std::vector<at::Tensor> start = Shards(4, kSize);
  const auto copy = [](const std::vector<at::Tensor>& all) {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& one : all) copies.push_back(one.clone());
    return copies;
  };
  std::vector<at::Tensor> adam, sgd;
  ForEachTarget([&] {
    const std::vector<at::Tensor> now = copy(start);
    now[3].square_();  // a second moment
    const auto data = [&](int i) { return now[i].data_ptr<float>(); };
    const AdamPass pass = {.factors = {.keep = 0.99f,
                                       .decay = 0.1f,
                                       .b1 = 0.9f,
                                       .b2 = 0.999f,
                                       .a1 = 0.1f,
                                       .a2 = 0.001f,
                                       .rate = 0.02f,
                                       .root_scale = 3.0f,
                                       .eps = 1e-8f},
                           .scale = 0.7f,
                           .gradients = data(0),
                           .weights = data(1),
                           .first = data(2),
                           .second = data(3)};
    ApplyAdam(pass, 333, kSize);
    ApplyAdam(pass, 0, 333);
    if (adam.empty()) adam = copy(now);
    for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(now[i].equal(adam[i]));
    ApplySgd({.rate = 0.1f,
              .momentum = 0.9f,
              .decay = 0.1f,
              .scale = 0.7f,
              .gradients = data(0),
              .weights = data(1),
              .buffer = data(2)},
             0, kSize);
    if (sgd.empty()) sgd = copy(now);
    for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(now[i].equal(sgd[i]));
  });
  // Something has changed.
  EXPECT_FALSE(adam[1].equal(start[1]));
}

}  // namespace
}  // namespace mnemon
