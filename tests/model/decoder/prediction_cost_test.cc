// SPDX-License-Identifier: MIT
// What a prediction costs: the memory that is counted is what it takes, and no piece
// does more than it may.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "bench/kernels/allocation_count.h"
#include "gtest/gtest.h"
#include "model/compute/step_options.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/operations/cpu_operations.h"
#include "model/program/encoder_buffers.h"
#include "model/program/encoder_predictor.h"

namespace mnemon {
namespace {

// A predictor with weights of some kind.
class TestPredictor {
 public:
  TestPredictor(const ModelConfig& config, const CpuOperations& operations, int threads)
      : pool_(threads) {
    const absl::StatusOr<ModelDescription> model = DescribeModel(config);
    EXPECT_TRUE(model.ok()) << model.status();
    for (const TensorShape& tensor : TensorsOf(*model)) {
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      std::vector<float>& values = values_.emplace_back(count);
      for (int64_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(i * 7919 % 101 - 50) / 500.0f;
      }
      views_.push_back(
          {.name = tensor.name, .shape = tensor.shape, .data = values.data()});
    }
    predictor_ = MakeEncoderPredictor(*model, views_,
                                      {.operations = &operations, .pool = &pool_});
  }
  Predictor* operator->() { return predictor_.get(); }

 private:
  ThreadPool pool_;
  std::vector<std::vector<float>> values_;
  TensorViews views_;
  std::unique_ptr<Predictor> predictor_;
};

Predictor::Input InputOf(const ModelConfig& config, int64_t batch, int64_t time,
                         AttentionMaps maps) {
  Predictor::Input input{.batch = batch, .maps = maps};
  for (int64_t i = 0; i < batch * time; ++i) {
    input.tokens.push_back(static_cast<int32_t>(i * 31 % config.vocab));
  }
  return input;
}

constexpr AttentionMaps kAllMaps[] = {AttentionMaps::kNone, AttentionMaps::kUsed,
                                      AttentionMaps::kNotebook};

// Every variant of every encoder, and each with heads of width 1.
std::vector<ModelConfig> Encoders() {
  std::vector<ModelConfig> configs;
  for (const Family& entry : Families()) {
    if (entry.autoregressive()) continue;
    for (ModelConfig config : entry.variants()) {
      configs.push_back(config);
      config.heads = config.d_model;
      configs.push_back(config);
    }
  }
  configs.push_back({.architecture = "encoder",
                     .d_model = 64,
                     .heads = 64,
                     .layers = 2,
                     .d_ff = 64,
                     .vocab = 10,
                     .positions = 700});
  return configs;
}

TEST(PredictCost, CountsTheMemoryThatAPredictionTakes) {
  if (!CountsAllocations()) GTEST_SKIP() << "a sanitizer counts nothing";
  for (const ModelConfig& config : Encoders()) {
    for (const int threads : {1, 3}) {
      TestPredictor predictor(config, **FindCpuOperations(""), threads);
      for (const auto& [batch, time] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 1}, {1, 9}, {3, 9}, {70, 8}, {2, 300}, {1, 700}}) {
        if (time > config.positions) continue;
        for (const AttentionMaps maps : kAllMaps) {
          const Predictor::Input input = InputOf(config, batch, time, maps);
          // Takes the scratch memory, which is not counted.
          ASSERT_TRUE(predictor->Begin(input).ok());
          Predictor::Input moved = input;
          const AllocationCount before = CountAllocations();
          const auto prediction = predictor->Begin(std::move(moved));
          const int64_t taken = (CountAllocations() - before).bytes;
          ASSERT_TRUE(prediction.ok()) << prediction.status();
          const int64_t counted = predictor->Cost(input).peak_bytes;
          EXPECT_LE(taken, counted) << ConfigToJson(config) << batch << " x " << time;
          EXPECT_LE(counted, 2 * taken)
              << ConfigToJson(config) << batch << " x " << time;
        }
      }
    }
  }
}

// Multiply-adds of matrices, whole panels of outputs, and 16 for each number that goes
// through a softmax.
std::atomic<int64_t> computed{0};
std::atomic<int64_t> attended{0};  // rows that went through a softmax

// Operations of one worker that count.
const CpuOperations& CountingOperations() {
  static const CpuOperations plain = **FindCpuOperations("");
  static const CpuOperations counting = [] {
    CpuOperations operations = plain;
    operations.linear = [](const LinearCall& call, Share share, float* scratch) {
      const int64_t panels = (call.weights.outputs + kPanel - 1) / kPanel;
      computed += call.rows * panels * kPanel * call.weights.inputs *
                  (call.gate == nullptr ? 1 : 2);
      plain.linear(call, share, scratch);
    };
    operations.softmax = [](const SoftmaxCall& call, Share share) {
      computed += 16 * call.rows * call.keys;
      attended += call.rows;
      plain.softmax(call, share);
    };
    return operations;
  }();
  return counting;
}

TEST(PredictionPieces, DoNoMoreThanTheyMay) {
  std::vector<ModelConfig> configs = Encoders();
  configs.push_back({.architecture = "encoder",
                     .d_model = 256,
                     .heads = 4,
                     .layers = 2,
                     .d_ff = 1024,
                     .vocab = 7,
                     .positions = 600,
                     .gated = true});
  for (const ModelConfig& config : configs) {
    TestPredictor predictor(config, CountingOperations(), 1);
    const int64_t longest = std::min<int64_t>(600, config.positions);
    for (const auto& [batch, time] :
         {std::pair<int64_t, int64_t>{600, 1}, {150, 9}, {2, longest}}) {
      for (const AttentionMaps maps : kAllMaps) {
        const Predictor::Input input = InputOf(config, batch, time, maps);
        const auto prediction = *predictor->Begin(input);
        int64_t most = 0, sum = 0, pieces = 0;
        for (bool done = false; !done; ++pieces) {
          computed = 0;
          done = *prediction->Advance();
          most = std::max<int64_t>(most, computed);
          sum += computed;
        }
        const std::string what = ConfigToJson(config) + std::to_string(time);
        EXPECT_LE(most, kPieceMultiplyAdds) << what;
        // Wide models have whole pieces.
        if (config.d_model >= 256) {
          EXPECT_LE(pieces, 3 * sum / kPieceMultiplyAdds + 2) << what;
        }
        EXPECT_GE(sum, predictor->Cost(input).multiply_adds) << what;
      }
    }
  }
}

// Attention of narrow heads, whose softmax takes most of the time, and of wide ones,
// whose scores the notebook's maps take once more.
TEST(PredictionPieces, OfLongSequencesDoNoMoreThanTheyMay) {
  struct Case {
    int64_t width, time;
    AttentionMaps maps;
  };
  for (const auto& [width, time, maps] : {Case{4, 28'000, AttentionMaps::kNone},
                                          Case{256, 1200, AttentionMaps::kNotebook}}) {
    const ModelConfig config{.architecture = "encoder",
                             .d_model = width,
                             .heads = 1,
                             .layers = 1,
                             .d_ff = 8,
                             .vocab = 7,
                             .positions = time};
    TestPredictor predictor(config, CountingOperations(), 1);
    const auto prediction = *predictor->Begin(InputOf(config, 1, time, maps));
    attended = 0;
    bool done = false;
    for (int pieces = 0; !done && attended < 100; ++pieces) {
      computed = 0;
      done = *prediction->Advance();
      EXPECT_LE(computed, kPieceMultiplyAdds) << width << " wide, piece " << pieces;
    }
    EXPECT_GE(attended, 100);
  }
}

// Models with a row that takes more than a piece: of the logits, which may be normed,
// of a projection and of a feed-forward sub-layer.
std::vector<ModelConfig> ModelsOfLargeRows() {
  const ModelConfig logits{.architecture = "encoder",
                           .d_model = 64,
                           .heads = 4,
                           .layers = 1,
                           .d_ff = 64,
                           .vocab = 300'001};
  ModelConfig normed = logits;
  normed.norm_logits = true;
  ModelConfig wide = logits;
  wide.d_model = 2560;
  wide.d_ff = 3001;
  wide.vocab = 10;
  wide.gated = true;
  return {logits, normed, wide};
}

TEST(PredictionPieces, DivideARowThatTakesMore) {
  for (const ModelConfig& config : ModelsOfLargeRows()) {
    TestPredictor predictor(config, CountingOperations(), 1);
    const Predictor::Input input = InputOf(config, 1, 3, AttentionMaps::kNotebook);
    const auto prediction = *predictor->Begin(input);
    int64_t most = 0, pieces = 0, sum = 0;
    for (bool done = false; !done; ++pieces) {
      computed = 0;
      done = *prediction->Advance();
      most = std::max<int64_t>(most, computed);
      sum += computed;
    }
    EXPECT_LE(most, kPieceMultiplyAdds) << ConfigToJson(config);
    EXPECT_LE(pieces, 2 * sum / kPieceMultiplyAdds + 2) << ConfigToJson(config);
  }
}

// Holds for any number of workers, and in any batch.
TEST(PredictionPieces, OfADividedRowGiveItsNumbers) {
  for (const ModelConfig& config : ModelsOfLargeRows()) {
    const Predictor::Input input = InputOf(config, 1, 2, AttentionMaps::kNotebook);
    TestPredictor one(config, **FindCpuOperations(""), 1);
    TestPredictor several(config, **FindCpuOperations(""), 3);
    const Predictor::Output expected = *one->Predict(input);
    const Predictor::Output found = *several->Predict(input);
    EXPECT_TRUE(found.logits == expected.logits) << ConfigToJson(config);
    EXPECT_TRUE(found.maps == expected.maps) << ConfigToJson(config);
    for (const float logit : found.logits) ASSERT_TRUE(std::isfinite(logit));
    Predictor::Input twice = input;
    twice.batch = 2;
    twice.tokens.insert(twice.tokens.end(), input.tokens.begin(), input.tokens.end());
    const Predictor::Output both = *one->Predict(twice);
    EXPECT_TRUE(std::equal(expected.logits.begin(), expected.logits.end(),
                           both.logits.begin() + expected.logits.size()));
  }
}

// The work that a prediction reports is at the end what its cost says.
TEST(PredictionPieces, CountTheirMultiplyAdds) {
  for (const ModelConfig& config : Encoders()) {
    TestPredictor predictor(config, **FindCpuOperations(""), 1);
    for (const AttentionMaps maps : kAllMaps) {
      const Predictor::Input input = InputOf(config, 3, 8, maps);
      const auto prediction = *predictor->Begin(input);
      int64_t before = 0;
      EXPECT_EQ(prediction->multiply_adds(), 0);
      for (bool done = false; !done; before = prediction->multiply_adds()) {
        done = *prediction->Advance();
        EXPECT_GE(prediction->multiply_adds(), before);
      }
      EXPECT_EQ(before, predictor->Cost(input).multiply_adds) << ConfigToJson(config);
    }
  }
}

TEST(PredictCost, GrowsAndNeverOverflows) {
  const ModelConfig config{.architecture = "encoder",
                           .d_model = 65536,
                           .heads = 4,
                           .layers = 1024,
                           .d_ff = 1 << 20,
                           .vocab = 1 << 24};
  const ModelDescription model = (*FindFamily("encoder"))->describe(config);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t batch : {int64_t{1}, kMost / 8}) {
    for (const AttentionMaps maps : kAllMaps) {
      EXPECT_EQ(PredictMultiplyAdds(model, batch, kMost / 8, maps), kMost);
      const EncoderShape shape(model, 3, batch, kMost / 8, maps);
      EXPECT_EQ(EncoderBuffers::Bytes(model, shape), kMost);
    }
  }
  EXPECT_EQ(PredictMultiplyAdds(model, 2, 8, AttentionMaps::kNone),
            2 * PredictMultiplyAdds(model, 1, 8, AttentionMaps::kNone));
}

}  // namespace
}  // namespace mnemon
