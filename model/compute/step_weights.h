// SPDX-License-Identifier: MIT
// The weights of a step form, found by name among the views of a model and packed.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/compute/kernels.h"
#include "model/compute/norm.h"
#include "model/compute/packed_weights.h"
#include "model/compute/step_options.h"
#include "model/compute/thread_pool.h"
#include "model/compute/weights.h"

namespace mnemon {

// A linear map whose outputs belong to heads, and the number of them per group.
struct HeadRows {
  std::string base;
  int64_t heads = 1;
};

// Names are those of TensorsOf. First, a step form asks for weights and gets the
// addresses that they will have; then Pack() writes them all, in parts on all threads
// of the pool, in the order in which the weights are read. The data of the views must
// outlive Pack, and is not needed afterwards.
class StepWeights {
 public:
  StepWeights(const TensorViews& views, const StepOptions& options);

  // Only functions called by Pack may read their data. Null if there is no such tensor.
  const TensorView* Find(std::string_view name) const;
  // REQUIRES: the tensor exists.
  const TensorView& Get(std::string_view name) const;

  // The rows of base.weight [N, K] and, if present, base.bias of all bases,
  // concatenated.
  MatrixView Linear(const std::vector<std::string>& bases, const MatrixUse& use = {});
  // The same with the rows of each head in panels of their own, grouped by groups of
  // heads, the first map's first: GroupStride(maps, head_width) outputs per group.
  MatrixView ByHead(const std::vector<HeadRows>& maps, int64_t head_width,
                    const MatrixUse& use = {});
  static int64_t GroupStride(std::span<const HeadRows> maps, int64_t head_width);
  // Whether the tensor, as stored, loses nothing in bfloat16.
  bool IsBf16(std::string_view name) const;
  // base.weight in bfloat16, independent of other weights. REQUIRES: IsBf16.
  MatrixView Bf16Table(const std::string& base);
  // The tensor in float32.
  const float* Table(std::string_view name) { return Raised(name, 0.0f); }
  // No gain if nothing is applied.
  NormView Norm(const std::string& base, const mnemon::Norm& norm = {});
  // Allocates at once.
  float* Make(int64_t count, int64_t margin = 0) { return packed_.Make(count, margin); }
  // Has Pack call `fill`, which reads `sources`; their data may not be available
  // before.
  void Later(const std::vector<std::span<const std::byte>>& sources,
             std::function<void()> fill);

  void Pack();

  const PackedWeights& packed() const { return packed_; }

 private:
  MatrixView Room(const std::vector<std::string>& bases, int64_t outputs,
                  const MatrixUse& use);
  // A table whose numbers are increased by `more`.
  const float* Raised(std::string_view name, float more);
  // Has Pack fill in a base in pieces of `piece` rows that lie apart: piece i starts at
  // output at(i).
  void FillLater(const MatrixView& room, const std::string& base, int64_t piece,
                 const std::function<int64_t(int64_t)>& at);

  // A part of Pack's work, which reads weights from `begin` to `end`.
  struct Part {
    std::function<void()> fill;
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };

  TensorViews views_;
  const WeightStream stream_;
  ThreadPool& pool_;
  PackedWeights packed_;
  std::vector<Part> parts_;
};

}  // namespace mnemon
