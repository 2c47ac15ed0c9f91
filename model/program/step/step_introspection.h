// SPDX-License-Identifier: MIT
// What a step can report about a token: maps introspections to the views that a step
// program fills.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder/decoder.h"
#include "model/program/step/step_program.h"
#include "model/program/step/step_view.h"

namespace mnemon {

// Used by one thread at a time.
class StepIntrospection {
 public:
  // The program outlives it.
  explicit StepIntrospection(const StepProgram& program);

  // Fields that tokens of the program have.
  const IntrospectionFields& fields() const { return fields_; }

  // Allocates the wanted fields in the introspections of these segments. Returns their
  // views, in order, with `run` not set; valid until the next call and as long as the
  // introspections. Throws std::bad_alloc.
  std::span<const StepView> MakeViews(std::span<const Segment> segments);

 private:
  // The blocks of one kind. They report a table [L, H, ..], so only if all have equally
  // many heads.
  struct Blocks {
    int64_t layers = 0, heads = 0;
    bool even = true;

    void Add(int64_t its_heads) {
      even = even && (layers == 0 || its_heads == heads);
      heads = its_heads;
      ++layers;
    }
    int64_t all() const { return layers * heads; }
  };

  StepView ViewOf(int64_t position, Introspection& out) const;

  const StepProgram& program_;
  IntrospectionFields fields_;
  Blocks attention_, fast_;
  int64_t fast_floats_ = 0;  // size of the largest W of a block
  std::vector<StepView> views_;
  std::vector<float> before_;
};

}  // namespace mnemon
