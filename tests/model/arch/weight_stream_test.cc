// SPDX-License-Identifier: MIT
// Weights that arrive while they are packed: for every architecture, nothing is read
// before it was waited for or after it was given back.
#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/thread_pool.h"
#include "model/registry/registry.h"
#include "model/state/arena.h"

namespace mnemon {
namespace {

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

// The weights of a model side by side as in a file, in an order of their own. They are
// there when they were waited for, and nothing afterwards.
class Stream {
 public:
  Stream(std::vector<TensorShape> tensors, uint64_t order) {
    std::mt19937_64 random(order);
    if (order > 0) std::shuffle(tensors.begin(), tensors.end(), random);
    for (const TensorShape& tensor : tensors) {
      views_.push_back({.name = tensor.name, .shape = tensor.shape});
      for (size_t left = views_.back().values().size(); left > 0; --left) {
        // The same values in any order.
        const size_t i = std::hash<std::string>()(tensor.name) % 1000 + left;
        file_.push_back(static_cast<float>(i * 7919 % 101) / 500.0f - 0.1f);
      }
    }
    memory_.assign(file_.size(), kNothing);
    const float* at = memory_.data();
    for (TensorView& view : views_) {
      view.data = at;
      at += view.values().size();
    }
  }

  const TensorViews& views() const { return views_; }
  WeightStream stream() {
    return {.await = [this](const float* end) { Arrive(end - memory_.data()); },
            .release_before =
                [this](const float* begin) { Release(begin - memory_.data()); }};
  }
  void ArriveAll() { Arrive(static_cast<int64_t>(file_.size())); }
  bool all_released() const { return released_ == static_cast<int64_t>(file_.size()); }

 private:
  void Arrive(int64_t end) {
    std::lock_guard lock(mutex_);
    for (; arrived_ < end; ++arrived_) memory_[arrived_] = file_[arrived_];
  }
  void Release(int64_t begin) {
    std::lock_guard lock(mutex_);
    EXPECT_LE(begin, arrived_);
    for (; released_ < begin; ++released_) memory_[released_] = kNothing;
  }

  TensorViews views_;
  std::vector<float> file_, memory_;
  std::mutex mutex_;
  int64_t arrived_ = 0, released_ = 0;  // guarded by mutex_
};

std::vector<float> Steps(Decoder& decoder, const ModelConfig& config) {
  const auto arena = StateArena::Create(decoder.spec(), {.slots = 1});
  EXPECT_TRUE(arena.ok()) << arena.status();
  const std::vector<int32_t> tokens = {1, 0, 2, 1};
  std::vector<float> logits(tokens.size() * static_cast<size_t>(config.vocab));
  const Segment segment{.slot = *(*arena)->Acquire(),
                        .position = 0,
                        .tokens = tokens,
                        .logits = LogitsMode::kAll};
  const absl::Status status = decoder.Step({&segment, 1}, **arena, logits.data());
  EXPECT_TRUE(status.ok()) << status;
  return logits;
}

std::vector<float> Outputs(const ArchitectureEntry& entry, const ModelConfig& config,
                           const DecoderOptions& options, Stream& weights,
                           const WeightStream& stream) {
  if (entry.autoregressive()) {
    auto decoder = MakeDecoder(config, weights.views(), options, stream);
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    return Steps(**decoder, config);
  }
  auto predictor = MakePredictor(config, weights.views(), options, stream);
  EXPECT_TRUE(predictor.ok()) << predictor.status();
  auto output = (*predictor)->Predict({.tokens = {1, 0, 2, 1}, .batch = 1});
  EXPECT_TRUE(output.ok()) << output.status();
  return {output->logits.begin(), output->logits.end()};
}

TEST(WeightStream, IsReadBetweenArrivalAndRelease) {
  for (const ArchitectureEntry& entry : Architectures()) {
    if (entry.autoregressive() && entry.make_decoder == nullptr) continue;
    const std::vector<ModelConfig> variants = entry.variants();
    for (size_t v = 0; v < variants.size(); ++v) {
      const ModelConfig& config = variants[v];
      for (const WeightFormat format :
           {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8}) {
        Stream there(entry.tensors(config), /*order=*/0);
        there.ArriveAll();
        const std::vector<float> expected =
            Outputs(entry, config, {.format = format}, there, {});
        for (const float logit : expected) ASSERT_EQ(logit, logit);
        for (const int threads : {1, 3}) {
          for (const uint64_t order : {0, 1, 2, 3}) {
            SCOPED_TRACE(std::string(entry.name) + " " + std::to_string(v) + " order " +
                         std::to_string(order));
            ThreadPool pool(threads);
            Stream weights(entry.tensors(config), order);
            EXPECT_EQ(Outputs(entry, config, {.format = format, .pool = &pool}, weights,
                              weights.stream()),
                      expected);
            // In the order of the architecture the last tensor is always used.
            EXPECT_TRUE(order > 0 || weights.all_released());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mnemon
