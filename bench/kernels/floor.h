// SPDX-License-Identifier: MIT
// Least time that a step or a prompt can take on a machine: the moved bytes over the
// measured bandwidth, or the multiplications over the measured arithmetic rate.
//   t_bytes = (W + B S) / bandwidth    t_flop = 2 P B / rate    floor = the larger
// Int8 has a rate of its own. Synchronisation of cores is left out, as is the
// arithmetic of attention and of the delta rule; nothing can be faster, except for what
// a nearer cache keeps between calls.
#pragma once

#include <cstdint>
#include <vector>

#include "model/compute/kernels.h"
#include "model/description/description.h"

namespace mnemon {

// Work of one model, with state in float32.
struct Work {
  int64_t weight_bytes = 0;  // W: read once per call, for all sessions together
  int64_t state_bytes = 0;   // S: read and written per session and call
  int64_t multiplied = 0;  // P: weights multiplied with an input, per session and call
  int64_t int8 = 0;        // of these, those in int8

  bool operator==(const Work&) const = default;
};

// W [outputs, inputs] of a step as it is multiplied: weights that share an input are
// one matrix.
struct MatrixShape {
  int64_t outputs = 0;
  int64_t inputs = 0;
  int64_t slice = 0;  // see PackedWeights::Room
  WeightFormat format = WeightFormat::kFp32;

  int64_t weights() const { return outputs * inputs; }
  // Bytes, including a scale per output in int8.
  int64_t bytes() const;
};

// Matrices that one token uses, in order; the output head is last. Stored like a
// decoder with this format does, each in its MatrixFormat.
std::vector<MatrixShape> Matrices(const ModelDescription& model,
                                  WeightFormat format = WeightFormat::kFp32);

// One token of each session, `context` tokens after its start. n = stored positions
// that a query sees (at most its window); per block:
//   attention        2 H K n read, 2 H K appended; with a shared memory appended once
//   fast weights     H K N read and written
// Weights: all matrices and vectors that one token uses, n rows of relative positions
// per layer if there are any, one row of the embedding per session unless it is also
// the head. Matrices are stored in `format`, everything else in float32.
Work StepWork(const ModelDescription& model, int64_t context,
              WeightFormat format = WeightFormat::kFp32);

// A prompt of `tokens` computed by each fresh session, with logits for the last token.
// If a prompt can be computed as a whole, weights are read once and a state is written
// once. The feedback forms go token by token: the sum of their steps, with the output
// head once.
Work PromptWork(const ModelDescription& model, int64_t tokens,
                WeightFormat format = WeightFormat::kFp32);

// Rates that all cores in use reach together.
struct Ceiling {
  double bytes_per_second = 0;
  double flops_per_second = 0;
  double int8_per_second = 0;  // operations of int8
};

// Operations of such a call, a multiply-add counted as two.
double OperationsOf(const Work& work, int64_t batch);

struct Floor {
  double bytes_seconds = 0;
  double flop_seconds = 0;
  double seconds() const;
};

// REQUIRES: positive rates.
Floor FloorOf(const Work& work, int64_t batch, const Ceiling& ceiling);

// W + B S: size of the buffer on which to measure the bandwidth.
int64_t WorkingSet(const Work& work, int64_t batch);

}  // namespace mnemon
