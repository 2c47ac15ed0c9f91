// SPDX-License-Identifier: MIT
// Weights that arrive while they are packed: for every architecture, nothing is read
// before it was waited for or after it was given back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/compute/tensor_names.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/program/make_decoder.h"
#include "model/state/arena.h"

namespace mnemon {
namespace {

// A byte that is not there: floats of it are NaN, and int8 is another number.
constexpr char kNothing = '\xff';

// The weights of a model side by side as in a file, in an order of their own. They are
// there when they were waited for, and nothing afterwards.
class Stream {
 public:
  Stream(const std::vector<TensorShape>& tensors, uint64_t order) {
    std::vector<TensorShape> in_file = tensors;
    std::mt19937_64 random(order);
    if (order > 0) std::shuffle(in_file.begin(), in_file.end(), random);
    std::map<std::string, size_t> begin;
    for (const TensorShape& tensor : in_file) {
      begin[tensor.name] = file_.size();
      Draw(tensor);
    }
    memory_.assign(file_.size(), kNothing);
    const auto at = [&](const std::string& name) { return &memory_[begin.at(name)]; };
    for (const TensorShape& tensor : tensors) {
      if (names::IsScale(tensor.name)) continue;
      TensorView& view =
          views_.emplace_back(TensorView{.name = tensor.name, .shape = tensor.shape});
      if (tensor.int8) {
        view.int8 = reinterpret_cast<const int8_t*>(at(tensor.name));
        view.scales = reinterpret_cast<const std::byte*>(at(names::Scale(tensor.name)));
      } else {
        view.data = reinterpret_cast<const float*>(at(tensor.name));
      }
    }
  }

  const TensorViews& views() const { return views_; }
  WeightStream stream() {
    const auto offset = [this](const void* at) {
      return static_cast<const char*>(at) - memory_.data();
    };
    return {.await = [=, this](const void* end) { Arrive(offset(end)); },
            .release_before = [=, this](const void* begin) { Release(offset(begin)); }};
  }
  void ArriveAll() { Arrive(static_cast<int64_t>(file_.size())); }
  bool all_released() const { return released_ == static_cast<int64_t>(file_.size()); }

 private:
  // The same values in any order; scales are not negative.
  void Draw(const TensorShape& tensor) {
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    for (; count > 0; --count) {
      const size_t i = std::hash<std::string>()(tensor.name) % 1000 + count;
      const int drawn = static_cast<int>(i * 7919 % 101) - 50;
      if (tensor.int8) {
        file_.push_back(static_cast<char>(drawn));
        continue;
      }
      float value = static_cast<float>(drawn) / 500.0f;
      if (names::IsScale(tensor.name)) value = std::abs(value) / 50.0f;
      char bytes[sizeof(value)];
      std::memcpy(bytes, &value, sizeof(value));
      file_.insert(file_.end(), bytes, bytes + sizeof(value));
    }
    while (file_.size() % sizeof(float) != 0) file_.push_back(0);
  }
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
  std::vector<char> file_, memory_;
  std::mutex mutex_;
  int64_t arrived_ = 0, released_ = 0;  // guarded by mutex_
};

std::vector<float> Steps(Decoder& decoder) {
  const auto arena = StateArena::Create(decoder.spec(), {.slots = 1});
  EXPECT_TRUE(arena.ok()) << arena.status();
  const std::vector<int32_t> tokens = {1, 0, 2, 1};
  std::vector<float> logits(tokens.size() * static_cast<size_t>(decoder.model().vocab));
  const Segment segment{.slot = *(*arena)->Acquire(),
                        .position = 0,
                        .tokens = tokens,
                        .logits = LogitsMode::kAll};
  const absl::Status status = decoder.Step({&segment, 1}, **arena, logits.data());
  EXPECT_TRUE(status.ok()) << status;
  return logits;
}

std::vector<float> Outputs(const ModelDescription& model, const DecoderOptions& options,
                           Stream& weights, const WeightStream& stream) {
  if (!model.whole_sequences) {
    auto decoder = MakeDecoder(model, weights.views(), options, stream);
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    return Steps(**decoder);
  }
  auto predictor = MakePredictor(model, weights.views(), options, stream);
  EXPECT_TRUE(predictor.ok()) << predictor.status();
  auto output = (*predictor)->Predict({.tokens = {1, 0, 2, 1}, .batch = 1});
  EXPECT_TRUE(output.ok()) << output.status();
  return {output->logits.begin(), output->logits.end()};
}

TEST(WeightStream, IsReadBetweenArrivalAndRelease) {
  for (const Family& entry : Families()) {
    const std::vector<ModelConfig> variants = entry.variants();
    for (size_t v = 0; v < variants.size(); ++v) {
      const ModelDescription model = entry.describe(variants[v]);
      for (const auto& [format, int8] : {std::pair{WeightFormat::kFp32, false},
                                         {WeightFormat::kBf16, false},
                                         {WeightFormat::kInt8, false},
                                         {WeightFormat::kInt8, true}}) {
        const std::vector<TensorShape> tensors = StoredTensors(model, int8);
        Stream there(tensors, /*order=*/0);
        there.ArriveAll();
        const std::vector<float> expected =
            Outputs(model, {.format = format}, there, {});
        for (const float logit : expected) ASSERT_EQ(logit, logit);
        for (const int threads : {1, 3}) {
          for (const uint64_t order : {0, 1, 2, 3}) {
            SCOPED_TRACE(std::string(entry.name) + " " + std::to_string(v) + " order " +
                         std::to_string(order) + (int8 ? ", int8" : ""));
            ThreadPool pool(threads);
            Stream weights(tensors, order);
            EXPECT_EQ(Outputs(model, {.format = format, .pool = &pool}, weights,
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
