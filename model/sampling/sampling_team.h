// SPDX-License-Identifier: MIT
// Samples rows of logits on the threads of a pool: each row on one thread, which has
// its own scratch.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "model/compute/thread_pool.h"
#include "model/sampling/sampler.h"

namespace mnemon {

// One Run at a time, by a thread that may use the pool. Does not allocate.
class SamplingTeam {
 public:
  // `pool` must outlive it; null: only the calling thread. Each thread gets memory for
  // up to `vocab` logits, which is not touched before use.
  SamplingTeam(ThreadPool* pool, const SamplingOperations& operations, int64_t vocab)
      : pool_(pool), vocab_(vocab), members_(pool == nullptr ? 1 : pool->count()) {
    for (Member& member : members_) {
      member.scratch.operations = &operations;
      member.scratch.Reserve(vocab);
    }
  }

  // Calls sample(r, scratch) once for each of `rows` rows of `vocab` logits; returns
  // when all are done. `sample` must not throw. A single row, and a few small ones, are
  // done by the calling thread. REQUIRES: vocab is at most the one given to the
  // constructor.
  template <class Sample>
  void Run(int64_t rows, int64_t vocab, const Sample& sample) {
    MNEMON_CHECK(vocab <= vocab_);
    if (pool_ == nullptr || rows < 2 || rows * vocab < kLeastLogits) {
      for (int64_t r = 0; r < rows; ++r) sample(r, members_[0].scratch);
      return;
    }
    struct Round {
      SamplingTeam& team;
      int64_t rows;
      const Sample& sample;
    } round{*this, rows, sample};
    pool_->Run(
        [](void* context, int index) {
          const auto [team, count, body] = *static_cast<const Round*>(context);
          const auto members = static_cast<int64_t>(team.members_.size());
          for (int64_t r = index; r < count; r += members) {
            body(r, team.members_[index].scratch);
          }
        },
        &round);
  }

 private:
  // For fewer logits, waking a thread takes longer than sampling.
  static constexpr int64_t kLeastLogits = 4096;

  struct alignas(64) Member {
    SamplerScratch scratch;
  };

  ThreadPool* const pool_;
  const int64_t vocab_;
  std::vector<Member> members_;  // one per thread of the pool
};

}  // namespace mnemon
