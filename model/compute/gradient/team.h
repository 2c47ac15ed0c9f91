// SPDX-License-Identifier: MIT
// The threads that compute some sequences: one, or all of a pool together.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/partition.h"
#include "model/compute/gradient/phases.h"
#include "model/compute/gradient/product.h"

namespace mnemon {

// A value. Functions passed to Run must not throw outside of Do.
class Team {
 public:
  // As seen by thread `worker`. `phases` must outlive it.
  Team(Phases& phases, int worker, bool all)
      : phases_(&phases), worker_(worker), all_(all) {}
  // A team of one thread, within a phase.
  static Team Alone() { return {}; }

  int size() const { return all_ ? phases_->workers() : 1; }
  // The team's sequences among 0 .. count-1.
  Part SequencesOf(int64_t count) const {
    return all_ ? Part{0, count} : PartOf(count, worker_, phases_->workers());
  }
  // The member's share.
  Part ShareOf(Part whole) const {
    if (!all_) return whole;
    const Part own = PartOf(whole.size(), worker_, phases_->workers());
    return {whole.begin + own.begin, whole.begin + own.end};
  }
  // The member's share of the columns of a matrix, in whole panels.
  Part ColumnsOf(int64_t width) const {
    const Part panels = ShareOf({0, WholePanels(width) / kColumnPanel});
    return {std::min(width, panels.begin * kColumnPanel),
            std::min(width, panels.end * kColumnPanel)};
  }

  // Work of all members, which consists of calls of Do, the same on all; then all
  // threads of the pool synchronise.
  template <class Work>
  void Run(const Work& work) const {
    if (all_) {
      work();
    } else {
      phases_->Do(worker_, work);
    }
  }
  // Runs phase(), then waits for all members.
  template <class Phase>
  void Do(const Phase& phase) const {
    if (all_) {
      phases_->Do(worker_, phase);
    } else {
      phase();
    }
  }

 private:
  Team() = default;

  Phases* phases_ = nullptr;
  int worker_ = 0;
  bool all_ = false;
};

}  // namespace mnemon
