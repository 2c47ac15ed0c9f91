// SPDX-License-Identifier: MIT
// Every position once, whatever the window; both forms alike; memory kept or fresh.
#include "train/commands/text_evaluation.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/sequence/make_model.h"
#include "model/sequence/model.h"
#include "model/sequence/runtime.h"

namespace mnemon {
namespace {

constexpr int64_t kVocab = 50;

// Knows that after token x comes x + 1, and records its input.
class CountingFeed final : public RowFeed {
 public:
  CountingFeed(int64_t rows, int64_t tokens) : most_rows_(rows), most_tokens_(tokens) {}
  int64_t most_rows() const override { return most_rows_; }
  int64_t most_tokens() const override { return most_tokens_; }
  absl::Status Restart(int64_t rows) override {
    EXPECT_GE(rows, 1);
    EXPECT_LE(rows, most_rows_);
    rows_ = rows;
    ++restarts;
    return absl::OkStatus();
  }
  absl::StatusOr<at::Tensor> Feed(const at::Tensor& tokens) override {
    EXPECT_EQ(tokens.size(0), rows_);
    EXPECT_LE(tokens.size(1), most_tokens_);
    at::Tensor logits = at::zeros({tokens.size(0), tokens.size(1), kVocab});
    for (int64_t b = 0; b < tokens.size(0); ++b) {
      for (int64_t t = 0; t < tokens.size(1); ++t) {
        const int64_t token = tokens[b][t].item<int64_t>();
        seen.push_back(token);
        logits[b][t][(token + 1) % kVocab] = std::log(9.0 * (kVocab - 1));
      }
    }
    return logits;
  }

  std::vector<int64_t> seen;
  int restarts = 0;

 private:
  const int64_t most_rows_, most_tokens_;
  int64_t rows_ = 0;
};

Evaluation Evaluate(std::span<const int32_t> tokens, int64_t window,
                    WindowMemory memory, RowFeed& feed) {
  int64_t reported = 0;
  const auto found = EvaluateText(tokens, window, memory, feed,
                                  [&](int64_t positions) { reported += positions; });
  EXPECT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(reported, found->positions);
  return *found;
}

TEST(TextEvaluation, CountsEveryPositionOnce) {
  std::vector<int32_t> tokens(48);
  std::iota(tokens.begin(), tokens.end(), 0);
  tokens.push_back(7);  // a surprise
  for (const WindowMemory memory : {WindowMemory::kFresh, WindowMemory::kKept}) {
    for (const int64_t window : {1, 5, 16, 47, 48, 49, 1000}) {
      for (const auto& [rows, most] : {std::pair{1, 1000}, {3, 4}, {1000, 1}}) {
        CountingFeed feed(rows, most);
        const Evaluation found = Evaluate(tokens, window, memory, feed);
        EXPECT_EQ(found.positions, 48);
        EXPECT_EQ(found.correct, 47);
        // The expected token has a chance of 0.9, any other a share of 0.1.
        EXPECT_NEAR(found.nats, -47 * std::log(0.9) - std::log(0.1 / (kVocab - 1)),
                    1e-4);
        std::sort(feed.seen.begin(), feed.seen.end());
        std::vector<int64_t> expected(48);
        std::iota(expected.begin(), expected.end(), 0);
        EXPECT_EQ(feed.seen, expected);
        if (memory == WindowMemory::kKept) {
          EXPECT_EQ(feed.restarts, 1);
        }
      }
    }
  }
}

TEST(TextEvaluation, RefusesATextWithNothingToPredict) {
  for (const std::vector<int32_t>& tokens : {std::vector<int32_t>{}, {1}}) {
    CountingFeed feed(1, 1);
    const auto found =
        EvaluateText(tokens, 4, WindowMemory::kFresh, feed, [](int64_t) {});
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// For every autoregressive architecture, against calls of Forward.
TEST(TextEvaluation, BothFormsEqualTheSumOverForward) {
  InitTensorRuntime(1);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 23; ++i) tokens.push_back(i * i % 5);
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    const ModelConfig config = entry.variants()[0];
    const std::unique_ptr<Model> model = *MakeModel(config);
    InitialiseWeights(*model, Initialisation::kSane, 3);
    RequireGradients(*model, false);
    for (const WindowMemory memory : {WindowMemory::kFresh, WindowMemory::kKept}) {
      const int64_t limit = model->carry_spec().max_positions();
      if (memory == WindowMemory::kKept && limit < 22) continue;
      constexpr int64_t kWindow = 5;
      Evaluation expected;
      Carry carry;
      for (int64_t at = 0; at < 22; at += kWindow) {
        const int64_t count = std::min(kWindow, 22 - at);
        at::Tensor in = at::zeros({1, count}, at::kLong), out = at::zeros_like(in);
        for (int64_t t = 0; t < count; ++t) {
          in[0][t] = tokens[at + t];
          out[0][t] = tokens[at + t + 1];
        }
        if (memory == WindowMemory::kFresh) carry = {};
        ForwardResult result = *model->Forward(in, carry, {});
        carry = std::move(result.carry);
        expected.Add(result.logits.flatten(0, 1), out.flatten());
      }
      const std::unique_ptr<RowFeed> sequence = MakeSequenceFeed(*model);
      WorkerPool pool(2);
      const std::unique_ptr<RowFeed> split = MakeSplitFeed(*model, pool);
      const std::unique_ptr<RowFeed> step = *MakeStepFeed(*MakeDecoder(*model), 3);
      for (RowFeed* feed : {sequence.get(), split.get(), step.get()}) {
        const Evaluation found = Evaluate(tokens, kWindow, memory, *feed);
        EXPECT_EQ(found.positions, 22);
        EXPECT_NEAR(found.nats, expected.nats, 1e-3) << entry.name;
      }
    }
  }
}

// The rows of its calls, and on how many threads each operation of them ran.
class WatchedModel final : public Model {
 public:
  explicit WatchedModel(const Model& model) : model_(model) {}
  const ModelDescription& description() const override { return model_.description(); }
  const StateSpec& carry_spec() const override { return model_.carry_spec(); }
  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    {
      std::lock_guard lock(mutex_);
      rows_.push_back(tokens.size(0));
      callers_.insert(std::this_thread::get_id());
      operation_threads_ = std::max(operation_threads_, at::get_num_threads());
    }
    return model_.Forward(tokens, carry, options);
  }
  void Visit(const TensorVisitor&) override {}

  std::vector<int64_t> TakeRows() { return std::exchange(rows_, {}); }
  size_t callers() const { return callers_.size(); }
  int operation_threads() const { return operation_threads_; }

 private:
  const Model& model_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::vector<int64_t> rows_;
  mutable std::set<std::thread::id> callers_;
  mutable int operation_threads_ = 0;
};

// Threads that share every small operation wait for each other: eval took ten times the
// time of score.
TEST(TextEvaluation, ThreadsShareRowsAndNotOperations) {
  InitTensorRuntime(1);
  const std::unique_ptr<Model> model = *MakeModel(Families()[0].variants()[0]);
  InitialiseWeights(*model, Initialisation::kSane, 3);
  WatchedModel watched(*model);
  WorkerPool pool(3);
  const std::unique_ptr<RowFeed> feed = MakeSplitFeed(watched, pool);
  const std::vector<int32_t> tokens(71 * 4 + 3, 1);  // 71 windows of 4, and 2 more
  Evaluate(tokens, 4, WindowMemory::kFresh, *feed);
  std::vector<int64_t> rows = watched.TakeRows();
  std::sort(rows.begin(), rows.end());
  // 32, 32, 7 and 1 rows.
  EXPECT_THAT(rows, testing::ElementsAre(1, 2, 2, 3, 10, 10, 11, 11, 11, 11));
  EXPECT_EQ(watched.callers(), 3u);
  EXPECT_EQ(watched.operation_threads(), 1);
  Evaluate(std::span(tokens).first(13), 4, WindowMemory::kKept, *feed);
  EXPECT_THAT(watched.TakeRows(), testing::ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace mnemon
