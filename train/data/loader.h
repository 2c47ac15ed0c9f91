// SPDX-License-Identifier: MIT
// A loader of batches in a deterministic order. The order is a function of (seed,
// pass), so a cursor is all there is to save.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/config.h"
#include "train/data/token_view.h"

namespace mnemon {

// The batch that comes next: `batch` of pass `pass`, both from 0.
struct LoaderCursor {
  int64_t pass = 0;
  int64_t batch = 0;
};

// A target that does not count.
inline constexpr int64_t kNoTarget = -1;

// targets[b, t] is what a model is to predict at inputs[b, t]: in a text, the token
// behind it; kNoTarget where nothing is.
struct Batch {
  int64_t rows = 0;              // B, or less in the last batch of a shuffled pass
  int64_t columns = 0;           // T, or less in the last batch of a sequential pass
  std::vector<int64_t> inputs;   // [rows, columns]
  std::vector<int64_t> targets;  // [rows, columns]
  // Its rows do not continue those of the batch before: memory starts afresh.
  bool fresh = true;

  // Positions that have a target.
  int64_t counted() const {
    return std::count_if(targets.begin(), targets.end(),
                         [](int64_t target) { return target != kNoTarget; });
  }
};

class Loader {
 public:
  virtual ~Loader() = default;
  virtual int64_t batches_per_pass() const = 0;
  // Batch `index` of pass `pass`. DATA_LOSS where a file holds what is no token.
  virtual absl::StatusOr<Batch> Get(int64_t pass, int64_t index) = 0;

  // The batch at the cursor, which moves on, into the next pass where one ends; after
  // an error it stays.
  absl::StatusOr<Batch> Next();
  const LoaderCursor& cursor() const { return cursor_; }
  // Gives up memory that the next call makes again.
  virtual void Release() {}
  // REQUIRES: cursor.batch < batches_per_pass().
  void Seek(const LoaderCursor& cursor);

 private:
  LoaderCursor cursor_;
};

// The part of the data that a loader goes through.
enum class LoaderUse { kTraining, kValidation, kTest };

// Windows of a text.
// shuffled: floor((size-1)/T) windows that do not overlap, in random order: shards of
//   floor(shuffle_shard/T) windows one after the other, and those of a shard in turn;
//   with jitter each start moves by a uniform integer 0..T-1, less where the text ends.
//   Validation keeps order and starts.
// sequential: `batch` streams of floor(size/batch) tokens side by side, consecutive
//   windows; the last may be shorter.
// What `tokens` shows must outlive the loader. INVALID_ARGUMENT when they are too few
// for a batch.
// REQUIRES: use is kTraining or kValidation.
absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const TokenView& tokens,
                                                   const DataOptions& options,
                                                   LoaderUse use, uint64_t seed);

}  // namespace mnemon
