// SPDX-License-Identifier: MIT
#include "train/data/loader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "train/data/draws.h"

namespace mnemon {
namespace {

absl::Status AppendWindow(const TokenView& tokens, int64_t start, int64_t length,
                          Batch& batch) {
  MNEMON_RETURN_IF_ERROR(tokens.Append(start, length, batch.inputs));
  return tokens.Append(start + 1, length, batch.targets);
}

class ShuffledLoader final : public Loader {
 public:
  ShuffledLoader(const TokenView& tokens, const DataOptions& options, LoaderUse use,
                 uint64_t seed)
      : tokens_(tokens),
        length_(options.seq_len),
        rows_(options.batch),
        shuffle_(use == LoaderUse::kTraining),
        jitter_(shuffle_ && options.jitter),
        seed_(seed),
        order_((tokens.size() - 1) / length_, seed,
               std::max<int64_t>(1, options.shuffle_shard / length_)) {}

  int64_t batches_per_pass() const override {
    return (order_.size() + rows_ - 1) / rows_;
  }

  absl::StatusOr<Batch> Get(int64_t pass, int64_t index) override {
    const int64_t first = index * rows_;
    Batch batch;
    batch.rows = std::min(rows_, order_.size() - first);
    batch.columns = length_;
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int64_t place = first + row;
      const int64_t window = shuffle_ ? order_.At(pass, place) : place;
      MNEMON_RETURN_IF_ERROR(
          AppendWindow(tokens_, Start(pass, window), length_, batch));
      if (shuffle_) ReadAheadOf(pass, place);
    }
    return batch;
  }

  void Release() override { order_.Release(); }

 private:
  // While windows of a shard are used, those of the next one come into memory.
  void ReadAheadOf(int64_t pass, int64_t place) const {
    const std::optional<int64_t> window = order_.InNextShard(pass, place);
    if (window) tokens_.ReadAhead(*window * length_, length_);
  }

  int64_t Start(int64_t pass, int64_t window) const {
    const int64_t start = window * length_;
    if (!jitter_) return start;
    const int64_t last = tokens_.size() - 1 - length_;
    const int64_t choices = std::min(length_, last - start + 1);
    return start + UniformBelow(choices, seed_, static_cast<uint32_t>(pass),
                                DrawPurpose::kJitter, window);
  }

  const TokenView tokens_;
  const int64_t length_;  // T
  const int64_t rows_;    // B
  const bool shuffle_;
  const bool jitter_;
  const uint64_t seed_;
  PassOrder order_;  // of the windows
};

class SequentialLoader final : public Loader {
 public:
  SequentialLoader(const TokenView& tokens, const DataOptions& options)
      : tokens_(tokens),
        length_(options.seq_len),
        rows_(options.batch),
        stream_(tokens.size() / rows_) {}

  // A stream of n tokens has n - 1 targets.
  int64_t batches_per_pass() const override {
    return (stream_ - 1 + length_ - 1) / length_;
  }

  absl::StatusOr<Batch> Get(int64_t pass, int64_t index) override {
    Batch batch;
    batch.rows = rows_;
    batch.columns = std::min(length_, stream_ - 1 - index * length_);
    batch.fresh = index == 0;
    for (int64_t row = 0; row < rows_; ++row) {
      MNEMON_RETURN_IF_ERROR(
          AppendWindow(tokens_, row * stream_ + index * length_, batch.columns, batch));
    }
    return batch;
  }

 private:
  const TokenView tokens_;
  const int64_t length_;  // T
  const int64_t rows_;    // B
  const int64_t stream_;  // tokens per stream
};

}  // namespace

absl::StatusOr<Batch> Loader::Next() {
  MNEMON_ASSIGN_OR_RETURN(Batch batch, Get(cursor_.pass, cursor_.batch));
  if (++cursor_.batch == batches_per_pass()) cursor_ = {cursor_.pass + 1, 0};
  return batch;
}

void Loader::Seek(const LoaderCursor& cursor) {
  MNEMON_CHECK(cursor.batch >= 0 && cursor.batch < batches_per_pass());
  cursor_ = cursor;
}

absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const TokenView& tokens,
                                                   const DataOptions& options,
                                                   LoaderUse use, uint64_t seed) {
  const bool shuffled = options.loader == LoaderKind::kShuffled;
  const int64_t least = shuffled ? options.seq_len + 1 : 2 * options.batch;
  if (tokens.size() < least) {
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
