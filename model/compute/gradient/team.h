// SPDX-License-Identifier: MIT
// Who computes some sequences: one thread, or all threads of a pool together.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/partition.h"
#include "model/compute/gradient/phases.h"
#include "model/compute/gradient/product.h"

namespace mnemon {

// A value. What Run is given does nothing that may throw outside of Do.
class Team {
 public:
  // As thread `worker` sees it. `phases` must outlive it.
  Team(Phases& phases, int worker, bool all)
      : phases_(&phases), worker_(worker), all_(all) {}
  // Of one thread, within a phase.
  static Team Alone() { return {}; }

  int size() const { return all_ ? phases_->workers() : 1; }
  // Of 0 .. count-1, those of the sequences that the team computes.
  Part SequencesOf(int64_t count) const {
    return all_ ? Part{0, count} : PartOf(count, worker_, phases_->workers());
  }
  // The member's own share.
  Part ShareOf(Part whole) const {
    if (!all_) return whole;
    const Part own = PartOf(whole.size(), worker_, phases_->workers());
    return {whole.begin + own.begin, whole.begin + own.end};
  }
  // Its share of the columns of a matrix, in whole panels.
  Part ColumnsOf(int64_t width) const {
    const Part panels = ShareOf({0, WholePanels(width) / kColumnPanel});
    return {std::min(width, panels.begin * kColumnPanel),
            std::min(width, panels.end * kColumnPanel)};
  }

  // Work of all members, which consists of calls of Do, the same ones on all; then all
  // threads of the pool meet.
  template <class Work>
  void Run(const Work& work) const {
    if (all_) {
      work();
    } else {
      phases_->Do(worker_, work);
    }
  }
  // phase(), then the members meet.
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
