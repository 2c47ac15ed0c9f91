// SPDX-License-Identifier: MIT
// A batch cut into pieces of at most so many rows, one after the other; a run may go on
// in the next piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/reserve.h"
#include "model/program/step_batch.h"

namespace mnemon {

class PieceCut {
 public:
  // Takes memory here alone. May throw std::bad_alloc.
  explicit PieceCut(int64_t rows) : most_(rows) {
    ReserveAtLeast(piece_.runs, rows);
    ReserveAtLeast(piece_.tokens, rows);
    ReserveAtLeast(piece_.wanted, rows);
  }

  // `batch` stays while Next is called.
  void Begin(const StepBatch& batch) {
    batch_ = &batch;
    run_ = wanted_ = 0;
    done_ = 0;
  }

  // Valid until the next call; null: there is none. Padding is left out.
  const StepBatch* Next() {
    piece_.runs.clear();
    piece_.tokens.clear();
    piece_.wanted.clear();
    for (; run_ < batch_->runs.size() && piece_.rows() < most_; NextRun()) {
      const StepBatch::Run& run = batch_->runs[run_];
      if (run.slot < 0) continue;
      const int64_t count = std::min(run.count - done_, most_ - piece_.rows());
      Add(run, count);
      done_ += count;
      if (done_ < run.count) break;
    }
    return piece_.runs.empty() ? nullptr : &piece_;
  }

 private:
  void NextRun() {
    ++run_;
    done_ = 0;
  }

  void Add(const StepBatch::Run& run, int64_t count) {
    const int64_t from = run.first + done_, to = piece_.rows();
    piece_.runs.push_back({.slot = run.slot,
                           .first = to,
                           .count = count,
                           .position = run.position + done_});
    const auto tokens = batch_->tokens.begin() + from;
    piece_.tokens.insert(piece_.tokens.end(), tokens, tokens + count);
    for (; wanted_ < batch_->wanted.size() && batch_->wanted[wanted_] < from + count;
         ++wanted_) {
      piece_.wanted.push_back(
          static_cast<int32_t>(batch_->wanted[wanted_] - from + to));
    }
  }

  const int64_t most_;
  const StepBatch* batch_ = nullptr;
  size_t run_ = 0, wanted_ = 0;
  int64_t done_ = 0;  // rows of the run
  StepBatch piece_;
};

}  // namespace mnemon
