// SPDX-License-Identifier: MIT
// Import of a carry of the sequence form into a slot, through a writer for the CPU or a
// device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/blocks/attention/kernels/calls.h"
#include "model/compute/kernels.h"
#include "model/compute/weights.h"
#include "model/program/step/step_program.h"
#include "model/state/arena.h"

namespace mnemon {

// Rows of a carry to append to a state: `rows` [places, width] in host memory,
// multiplied by `matrix` if it has outputs.
struct CarryRows {
  // What to append: keys start at column `key`, values at column `value`.
  struct To {
    AppendCall append;  // without rows
    int64_t key = 0;
    int64_t value = 0;
    int64_t head_stride = 0;
  };

  const float* rows = nullptr;
  int64_t width = 0;
  NormView norm;
  MatrixView matrix;
  std::vector<Place> places;
  std::vector<To> to;
};

// Writes rows and numbers into a state: the CPU's team or a device.
class CarryWriter {
 public:
  // Rows multiplied at once.
  static constexpr int64_t kRowsAtOnce = 256;

  virtual ~CarryWriter() = default;
  // May throw std::bad_alloc.
  virtual void Append(const CarryRows& rows) = 0;
  // Copies the numbers of fixed entries.
  virtual void Write(std::span<const float> from, float* to) = 0;
};

// Same contract as StepRunner::Import. Returns false if a fixed entry is not finite;
// the writer knows whether the appended rows are finite. May throw std::bad_alloc.
bool ImportCarry(const StepProgram& program, int64_t position, const TensorViews& carry,
                 StateArena& arena, int32_t slot, CarryWriter& writer);

}  // namespace mnemon
