// SPDX-License-Identifier: MIT
// A loader of batches in a deterministic order: a function of (seed, pass), so that a
// cursor is all its state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/config.h"
#include "train/data/token_view.h"

namespace mnemon {

// The next batch: number `batch` of pass `pass`, both from 0.
struct LoaderCursor {
  int64_t pass = 0;
  int64_t batch = 0;
};

// The target of positions that do not count.
inline constexpr int64_t kNoTarget = -1;

// targets[b, t] is what the model must predict at inputs[b, t]: in a text, the next
// token; kNoTarget if nothing.
struct Batch {
  int64_t rows = 0;              // B, or less in the last batch of a shuffled pass
  int64_t columns = 0;           // T, or less in the last batch of a sequential pass
  std::vector<int64_t> inputs;   // [rows, columns]
  std::vector<int64_t> targets;  // [rows, columns]
  // The rows do not continue those of the previous batch: memory starts empty.
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
  // Batch `index` of pass `pass`. DATA_LOSS if a file holds an invalid token.
  virtual absl::StatusOr<Batch> Get(int64_t pass, int64_t index) = 0;

  // Returns the batch at the cursor and advances it, after the last batch to the next
  // pass. Stays there on an error.
  absl::StatusOr<Batch> Next();
  const LoaderCursor& cursor() const { return cursor_; }
  // Frees memory that the next call allocates again.
  virtual void Release() {}
  // REQUIRES: cursor.batch < batches_per_pass().
  void Seek(const LoaderCursor& cursor);

 private:
  LoaderCursor cursor_;
};

// The part of the data that a loader reads.
enum class LoaderUse { kTraining, kValidation, kTest };

// Windows of a text.
// shuffled: floor((size-1)/T) windows that do not overlap, in the order of PassOrder
//   with shards of floor(shuffle_shard/T) windows. With jitter each start moves by a
//   uniform integer 0..T-1, less at the end of the text. Validation keeps the order and
//   the starts of the text.
// sequential: `batch` streams of floor(size/batch) tokens side by side, in consecutive
//   windows; the last may be shorter.
// The memory that `tokens` refers to must outlive the loader. INVALID_ARGUMENT if there
// are too few tokens for a batch.
// REQUIRES: use is kTraining or kValidation.
absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const TokenView& tokens,
                                                   const DataOptions& options,
                                                   LoaderUse use, uint64_t seed);

}  // namespace mnemon
