// SPDX-License-Identifier: MIT
// The bits of every pass, hashed, on every instruction set. When this fails because the
// arithmetic was meant to change, raise kPassRevision and write the new hash beside it:
// runs that older builds began then say that they go on with other bits.
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/compute/each_target.h"
#include "model/families/families.h"
#include "model/gradient/gradient_pass.h"
#include "tests/model/compute/bit_hash.h"

namespace mnemon {
namespace {

constexpr int kHashedRevision = 3;
// Hashes of the families that the revision started with, and of those added later.
constexpr uint64_t kHash = 1137654158042123841ull, kLaterHash = 15153852631897714528ull;
constexpr std::string_view kLater[] = {"llama"};

constexpr int64_t kBatch = 3, kTime = 9;

// Two batches that continue each other, with dropout.
void HashPass(const ModelDescription& model, int threads, BitHash& hash) {
  FlatLayout layout;
  int64_t size = 0;
  for (const TensorShape& tensor : TensorsOf(model)) {
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    layout.Add(tensor.name, size, count);
    size += (count + 15) / 16 * 16;
  }
  std::minstd_rand random(7);
  const auto draw = [&] { return static_cast<float>(random() % 20001) / 1e4f - 1; };
  std::vector<float> weights(static_cast<size_t>(size));
  for (float& weight : weights) weight = 0.5f * draw();
  ThreadPool pool(threads);
  const auto pass = MakeGradientPass<float>(model, layout, pool);
  ASSERT_NE(pass, nullptr);
  std::vector<float> gradients(static_cast<size_t>(pass->sums_size()));
  PassCarry<float> carry;
  for (const int64_t time : {kTime, int64_t{2}}) {
    std::vector<int32_t> tokens(static_cast<size_t>(kBatch * time)), targets = tokens;
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % model.vocab);
    for (int32_t& token : targets) token = static_cast<int32_t>(random() % model.vocab);
    const PassInput input = {.shards = Shards::Whole(kBatch, 2),
                             .time = time,
                             .tokens = tokens.data(),
                             .targets = targets.data(),
                             .dropout = 3,
                             .continues = true};
    const auto loss = pass->Run(input, weights.data(), gradients.data(), carry);
    ASSERT_TRUE(loss.ok()) << loss.status();
    pass->Finish(weights.data(), gradients.data());
    hash.Add(loss->nats);
    hash.Add(std::vector<float>(gradients.begin(), gradients.begin() + layout.size()));
  }
  for (const auto& entry : carry.entries) hash.Add(entry.values);
}

TEST(PassRevision, BitsAreThoseOfTheRevision) {
  ForEachTarget([] {
    BitHash first, later;
    for (const Family& entry : Families()) {
      BitHash& hash = std::ranges::count(kLater, entry.name) > 0 ? later : first;
      for (const ModelConfig& config : entry.variants()) {
        HashPass(entry.describe(config), /*threads=*/2, hash);
      }
    }
    EXPECT_EQ(kPassRevision, kHashedRevision);
    EXPECT_EQ(first.value(), kHash);
    EXPECT_EQ(later.value(), kLaterHash);
  });
}

// Wide enough that all threads compute three sequences together, where there are many
// of them: some have no columns, or no heads.
TEST(PassRevision, BitsOfWideModelsAreThoseOfOneThread) {
  for (const Family& entry : Families()) {
    for (ModelConfig config : entry.variants()) {
      config.d_model = 50 * config.heads;
      config.d_ff = 1500;
      const ModelDescription model = entry.describe(config);
      BitHash one;
      HashPass(model, 1, one);
      for (const int threads : {3, 14}) {
        BitHash many;
        HashPass(model, threads, many);
        EXPECT_EQ(many.value(), one.value())
            << config.architecture << ", " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace mnemon
