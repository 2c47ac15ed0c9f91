// SPDX-License-Identifier: MIT
// What the step of a token can tell of itself: from introspections to the views that a
// step program fills.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder/decoder.h"
#include "model/program/step_program.h"
#include "model/program/step_view.h"

namespace mnemon {

// One thread at a time.
class StepIntrospection {
 public:
  // The program outlives it.
  explicit StepIntrospection(const StepProgram& program);

  // What tokens of the program have.
  const IntrospectionFields& fields() const { return fields_; }

  // Makes room in the introspections of these segments for what they name. Returns
  // their views, in order, but for the runs; valid until the next call, and while the
  // introspections are. Throws std::bad_alloc.
  std::span<const StepView> MakeViews(std::span<const Segment> segments);

 private:
  StepView ViewOf(int64_t position, Introspection& out) const;

  const StepProgram& program_;
  IntrospectionFields fields_;
  int64_t layers_ = 0;       // with attention or fast weights
  int64_t fast_floats_ = 0;  // of the W of a layer
  std::vector<StepView> views_;
  std::vector<float> before_;
};

}  // namespace mnemon
