// SPDX-License-Identifier: MIT
// A predictor without tensors: logits and maps are sums over what the mask lets
// through.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/decoder/decoder.h"
#include "tests/fakes/patience.h"

namespace mnemon {

class ToyPredictor final : public Predictor {
 public:
  static constexpr int64_t kVocab = 12;
  static constexpr int64_t kHeads = 2;
  static constexpr int64_t kPositions = 64;
  static constexpr int32_t kThrowing = 11;  // a first token that makes it throw

  static constexpr int64_t kEndless = INT64_MAX;  // until Finish

  // The last of `pieces` computes everything.
  explicit ToyPredictor(int64_t pieces = 1) : pieces_(pieces) {
    model_.width = 1;
    model_.vocab = kVocab;
    model_.whole_sequences = true;
    model_.layers.assign(2, {{.name = "attn", .block = Attention{.heads = kHeads}},
                             {.name = "ff", .block = FeedForward{}}});
  }

  const ModelDescription& model() const override { return model_; }
  const std::string& numerics_id() const override { return numerics_id_; }
  int64_t weight_bytes() const override { return 0; }
  int64_t max_positions() const override { return kPositions; }

  PredictCost Cost(const Input& input) const override {
    const auto tokens = static_cast<int64_t>(input.tokens.size());
    return {.multiply_adds = PredictMultiplyAdds(model_, input.batch,
                                                 tokens / input.batch, input.maps),
            .peak_bytes = tokens * kVocab * static_cast<int64_t>(sizeof(float))};
  }

  absl::StatusOr<std::unique_ptr<Prediction>> Begin(Input input) override {
    if (on_memory_) on_memory_();
    return std::make_unique<InPieces>(*this, std::move(input));
  }

  // `on_piece` is called in every piece, with the number of tokens. Call before the
  // first.
  void OnPiece(std::function<void(size_t)> on_piece) {
    on_piece_ = std::move(on_piece);
  }

  // Called whenever the memory of a prediction is allocated or freed. Call before the
  // first.
  void OnMemory(std::function<void()> on_memory) { on_memory_ = std::move(on_memory); }

  // While closed, a prediction waits in its next piece.
  void Close() {
    std::lock_guard lock(mutex_);
    open_ = false;
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Waits until a call waits.
  bool AwaitHeld() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return held_; });
  }
  // Makes the next piece of any prediction its last.
  void Finish() {
    std::lock_guard lock(mutex_);
    pieces_ = 0;
    open_ = true;
    changed_.notify_all();
  }
  // Pieces computed or under way, over all predictions.
  int64_t pieces() const {
    std::lock_guard lock(mutex_);
    return begun_;
  }

 private:
  class InPieces final : public Prediction {
   public:
    InPieces(ToyPredictor& predictor, Input input)
        : predictor_(predictor), input_(std::move(input)) {}
    ~InPieces() override {
      if (predictor_.on_memory_) predictor_.on_memory_();
    }
    absl::StatusOr<bool> Advance() override {
      if (!predictor_.RunPiece(++piece_, input_)) return false;
      done_ = true;
      output_ = predictor_.Compute(input_);
      return true;
    }
    // Each piece does as much, except for an endless prediction.
    int64_t multiply_adds() const override {
      const int64_t cost = predictor_.Cost(input_).multiply_adds;
      std::lock_guard lock(predictor_.mutex_);
      return done_ ? cost : cost / std::max<int64_t>(1, predictor_.pieces_) * piece_;
    }
    Output TakeOutput() override { return std::move(output_); }

   private:
    ToyPredictor& predictor_;
    const Input input_;
    int64_t piece_ = 0;
    bool done_ = false;
    Output output_;
  };

  Output Compute(const Input& input) const {
    if (input.tokens[0] == kThrowing) throw std::runtime_error("toy exception");
    const int64_t time = static_cast<int64_t>(input.tokens.size()) / input.batch;
    Output output;
    if (input.maps != AttentionMaps::kNone) output.maps.resize(model_.layers.size());
    for (int64_t b = 0; b < input.batch; ++b) {
      for (int64_t t = 0; t < time; ++t) {
        int64_t seen = 0;
        for (int64_t k = 0; k < time; ++k) {
          seen += Sees(input, b, t, k) * (k + 1) * input.tokens[b * time + k];
        }
        for (int64_t v = 0; v < kVocab; ++v) {
          output.logits.push_back(v == seen % kVocab ? 1.0f : 0.0f);
        }
      }
      for (UnsetFloats& map : output.maps) {
        for (int64_t h = 0; h < kHeads; ++h) {
          for (int64_t i = 0; i < time * time; ++i) {
            map.push_back(Sees(input, b, i / time, i % time) +
                          (input.maps == AttentionMaps::kNotebook ? 10.0f : 0.0f));
          }
        }
      }
    }
    return output;
  }

  // Returns true for the last piece.
  bool RunPiece(int64_t piece, const Input& input) {
    {
      std::unique_lock lock(mutex_);
      ++begun_;
      held_ = !open_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
      held_ = false;
    }
    if (on_piece_) on_piece_(input.tokens.size());
    std::lock_guard lock(mutex_);
    return piece >= pieces_;
  }

  static bool Sees(const Input& input, int64_t b, int64_t t, int64_t k) {
    const int64_t time = static_cast<int64_t>(input.tokens.size()) / input.batch;
    const auto mask = static_cast<int64_t>(input.explicit_mask.size());
    switch (input.mask) {
      case PredictMask::kCausal:
        return k <= t;
      case PredictMask::kExplicit:
        return input.explicit_mask[(b * time * time + t * time + k) % mask] != 0;
      case PredictMask::kConfig:
      case PredictMask::kNone:
        break;
    }
    return true;
  }

  ModelDescription model_;
  std::string numerics_id_ = "toy";
  std::function<void(size_t)> on_piece_;
  std::function<void()> on_memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;  // guarded by mutex_, as all below
  bool held_ = false;
  int64_t pieces_;
  int64_t begun_ = 0;
};

}  // namespace mnemon
