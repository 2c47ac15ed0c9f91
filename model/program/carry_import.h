// SPDX-License-Identifier: MIT
// The import of a carry of the sequence form into a slot, whatever computes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/blocks/attention/calls.h"
#include "model/compute/kernels.h"
#include "model/compute/weights.h"
#include "model/program/step_program.h"
#include "model/state/arena.h"

namespace mnemon {

// Rows of a carry that are appended to a state: those of `rows` [places, width], in the
// memory of the host, multiplied with `matrix` where that has outputs.
struct CarryRows {
  // Keys from column `key` on, values from `value` on, of what is appended.
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

// What writes them: a team of the CPU, or a device.
class CarryWriter {
 public:
  // Rows that are multiplied at once.
  static constexpr int64_t kRowsAtOnce = 256;

  virtual ~CarryWriter() = default;
  // May throw std::bad_alloc.
  virtual void Append(const CarryRows& rows) = 0;
  // Numbers of fixed entries, as they are.
  virtual void Write(std::span<const float> from, float* to) = 0;
};

// As StepRunner::Import. False: a fixed entry is not finite; what Append has written is
// for the writer to know. May throw std::bad_alloc.
bool ImportCarry(const StepProgram& program, int64_t position, const TensorViews& carry,
                 StateArena& arena, int32_t slot, CarryWriter& writer);

}  // namespace mnemon
