// SPDX-License-Identifier: MIT
// Cuts a batch into consecutive pieces of at most a given number of rows; a run may
// continue in the next piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/reserve.h"
#include "model/program/step/step_batch.h"

namespace mnemon {

class PieceCut {
 public:
  struct Piece {
    // `batch.wanted`: rows whose logits are computed, for the batch or for draws.
    StepBatch batch;
    std::vector<int32_t> to_host;  // entries of `wanted` that the batch wants
    struct Draw {
      int32_t slot = 0;
      int64_t index = 0;       // index of the token in its session
      int32_t logits_row = 0;  // among `wanted`
    };
    std::vector<Draw> draws;
  };

  // The only call that allocates. May throw std::bad_alloc.
  explicit PieceCut(int64_t rows) : most_(rows) {
    ReserveAtLeast(piece_.batch.runs, rows);
    ReserveAtLeast(piece_.batch.tokens, rows);
    ReserveAtLeast(piece_.batch.wanted, rows);
    ReserveAtLeast(piece_.to_host, rows);
    ReserveAtLeast(piece_.draws, rows);
  }

  // `batch` must outlive the calls of Next.
  void Begin(const StepBatch& batch) {
    batch_ = &batch;
    run_ = wanted_ = 0;
    done_ = 0;
  }

  // The next piece without padding, valid until the next call; null at the end.
  const Piece* Next() {
    StepBatch& piece = piece_.batch;
    piece.runs.clear();
    piece.tokens.clear();
    piece.wanted.clear();
    piece_.to_host.clear();
    piece_.draws.clear();
    for (; run_ < batch_->runs.size() && piece.rows() < most_; NextRun()) {
      const StepBatch::Run& run = batch_->runs[run_];
      if (run.slot < 0) continue;
      const int64_t count = std::min(run.count - done_, most_ - piece.rows());
      Add(run, count);
      done_ += count;
      if (done_ < run.count) break;
    }
    return piece.runs.empty() ? nullptr : &piece_;
  }

 private:
  void NextRun() {
    ++run_;
    done_ = 0;
  }

  // Adds the next `count` rows of a run.
  void Add(const StepBatch::Run& run, int64_t count) {
    StepBatch& piece = piece_.batch;
    const int64_t from = run.first + done_, to = piece.rows();
    piece.runs.push_back({.slot = run.slot,
                          .first = to,
                          .count = count,
                          .position = run.position + done_});
    const auto tokens = batch_->tokens.begin() + from;
    piece.tokens.insert(piece.tokens.end(), tokens, tokens + count);
    for (; wanted_ < batch_->wanted.size() && batch_->wanted[wanted_] < from + count;
         ++wanted_) {
      piece_.to_host.push_back(static_cast<int32_t>(piece.wanted.size()));
      piece.wanted.push_back(static_cast<int32_t>(batch_->wanted[wanted_] - from + to));
    }
    if (!run.draws || done_ + count < run.count) return;
    const auto last = static_cast<int32_t>(to + count - 1);
    if (piece.wanted.empty() || piece.wanted.back() != last) {
      piece.wanted.push_back(last);
    }
    piece_.draws.push_back(
        {.slot = run.slot,
         .index = run.position + run.count,
         .logits_row = static_cast<int32_t>(piece.wanted.size()) - 1});
  }

  const int64_t most_;
  const StepBatch* batch_ = nullptr;
  size_t run_ = 0, wanted_ = 0;
  int64_t done_ = 0;  // rows of the run that are done
  Piece piece_;
};

}  // namespace mnemon
