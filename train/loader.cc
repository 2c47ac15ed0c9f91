// SPDX-License-Identifier: MIT
#include "train/loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "model/sampling/philox.h"

namespace mnemon {
namespace {

// What a random number of a pass is for; part of the counter.
enum Purpose : uint32_t { kOrder = 1, kJitter = 2 };

// Uniform in 0 .. n-1: the upper half of a 64-bit product; its bias is below n / 2^64.
int64_t UniformBelow(int64_t n, uint64_t seed, int64_t pass, Purpose purpose,
                     int64_t index) {
  const std::array<uint32_t, 4> word =
      Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                  static_cast<uint32_t>(pass), purpose},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{word[1]} << 32) | word[0];
  return static_cast<int64_t>(
      (static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(n)) >> 64);
}

void AppendWindow(std::span<const int32_t> tokens, int64_t start, int64_t length,
                  Batch& batch) {
  auto window = tokens.subspan(start, length + 1);
  batch.inputs.insert(batch.inputs.end(), window.begin(), window.end() - 1);
  batch.targets.insert(batch.targets.end(), window.begin() + 1, window.end());
}

class ShuffledLoader final : public Loader {
 public:
  ShuffledLoader(std::span<const int32_t> tokens, const DataOptions& options,
                 LoaderUse use, uint64_t seed)
      : tokens_(tokens),
        length_(options.seq_len),
        rows_(options.batch),
        shuffle_(use == LoaderUse::kTraining),
        jitter_(shuffle_ && options.jitter),
        seed_(seed),
        order_((static_cast<int64_t>(tokens.size()) - 1) / length_) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  int64_t batches_per_pass() const override {
    return (static_cast<int64_t>(order_.size()) + rows_ - 1) / rows_;
  }

  Batch Get(int64_t pass, int64_t index) override {
    if (shuffle_ && pass != ordered_for_) Shuffle(pass);
    const int64_t first = index * rows_;
    Batch batch;
    batch.rows = std::min<int64_t>(rows_, static_cast<int64_t>(order_.size()) - first);
    batch.columns = length_;
    for (int64_t row = 0; row < batch.rows; ++row) {
      AppendWindow(tokens_, Start(pass, order_[first + row]), length_, batch);
    }
    return batch;
  }

 private:
  // Fisher and Yates, from sorted order: a pass does not depend on those before it.
  void Shuffle(int64_t pass) {
    std::iota(order_.begin(), order_.end(), 0);
    for (int64_t i = static_cast<int64_t>(order_.size()) - 1; i > 0; --i) {
      std::swap(order_[i], order_[UniformBelow(i + 1, seed_, pass, kOrder, i)]);
    }
    ordered_for_ = pass;
  }

  int64_t Start(int64_t pass, int64_t window) const {
    const int64_t start = window * length_;
    if (!jitter_) return start;
    const int64_t last = static_cast<int64_t>(tokens_.size()) - 1 - length_;
    const int64_t choices = std::min(length_, last - start + 1);
    return start + UniformBelow(choices, seed_, pass, kJitter, window);
  }

  const std::span<const int32_t> tokens_;
  const int64_t length_;  // T
  const int64_t rows_;    // B
  const bool shuffle_;
  const bool jitter_;
  const uint64_t seed_;
  std::vector<int64_t> order_;  // windows in the order of pass ordered_for_
  int64_t ordered_for_ = -1;
};

class SequentialLoader final : public Loader {
 public:
  SequentialLoader(std::span<const int32_t> tokens, const DataOptions& options)
      : tokens_(tokens),
        length_(options.seq_len),
        rows_(options.batch),
        stream_(static_cast<int64_t>(tokens.size()) / rows_) {}

  // A stream of n tokens has n - 1 targets.
  int64_t batches_per_pass() const override {
    return (stream_ - 1 + length_ - 1) / length_;
  }

  Batch Get(int64_t pass, int64_t index) override {
    Batch batch;
    batch.rows = rows_;
    batch.columns = std::min(length_, stream_ - 1 - index * length_);
    batch.fresh = index == 0;
    for (int64_t row = 0; row < rows_; ++row) {
      AppendWindow(tokens_, row * stream_ + index * length_, batch.columns, batch);
    }
    return batch;
  }

 private:
  const std::span<const int32_t> tokens_;
  const int64_t length_;  // T
  const int64_t rows_;    // B
  const int64_t stream_;  // tokens per stream
};

}  // namespace

Batch Loader::Next() {
  Batch batch = Get(cursor_.pass, cursor_.batch);
  if (++cursor_.batch == batches_per_pass()) cursor_ = {cursor_.pass + 1, 0};
  return batch;
}

void Loader::Seek(const LoaderCursor& cursor) {
  MNEMON_CHECK(cursor.batch >= 0 && cursor.batch < batches_per_pass());
  cursor_ = cursor;
}

absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(std::span<const int32_t> tokens,
                                                   const DataOptions& options,
                                                   LoaderUse use, uint64_t seed) {
  const bool shuffled = options.loader == LoaderKind::kShuffled;
  const int64_t least = shuffled ? options.seq_len + 1 : 2 * options.batch;
  if (static_cast<int64_t>(tokens.size()) < least) {
    return absl::InvalidArgumentError(StrCat(
        "data.text: the ", use == LoaderUse::kTraining ? "training" : "validation",
        " part has ", tokens.size(), " tokens, a ", Name(options.loader),
        " loader needs at least ", least, ": use a longer text or a smaller ",
        shuffled ? "data.seq_len" : "data.batch"));
  }
  if (shuffled) {
    return std::make_unique<ShuffledLoader>(tokens, options, use, seed);
  }
  return std::make_unique<SequentialLoader>(tokens, options);
}

}  // namespace mnemon
