// SPDX-License-Identifier: MIT
// The weights of a step form: found among the views of a model by name and packed.
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

// A linear map whose outputs are those of heads, and how many of them a group has.
struct HeadRows {
  std::string base;
  int64_t heads = 1;
};

// Names as of TensorsOf. First a step form asks for what it needs
// and gets where it will be; then Pack() writes all of it, in parts on all threads of
// the pool, in the order in which the weights are read. What the views show must
// outlive Pack, and is not needed afterwards.
class StepWeights {
 public:
  StepWeights(const TensorViews& views, const StepOptions& options);

  // Their data may be read by what Pack calls alone. Null when there is none of that
  // name.
  const TensorView* Find(std::string_view name) const;
  // REQUIRES: there is one.
  const TensorView& Get(std::string_view name) const;

  // base.weight [N, K] and base.bias, as far as it is there, of each base one below
  // the other.
  MatrixView Linear(const std::vector<std::string>& bases, const MatrixUse& use = {});
  // The same with the rows of each head in panels of their own and those of a group of
  // heads together, the first map's first: GroupStride(maps, head_width) outputs for
  // each group.
  MatrixView ByHead(const std::vector<HeadRows>& maps, int64_t head_width,
                    const MatrixUse& use = {});
  static int64_t GroupStride(std::span<const HeadRows> maps, int64_t head_width);
  // Whether it loses nothing in bfloat16, as the file has it.
  bool IsBf16(std::string_view name) const;
  // base.weight in bfloat16 whatever the others are. REQUIRES: IsBf16.
  MatrixView Bf16Table(const std::string& base);
  // As it is, in float32.
  const float* Table(std::string_view name) { return Raised(name, 0.0f); }
  // No gain where nothing is applied.
  NormView Norm(const std::string& base, const mnemon::Norm& norm = {});
  // Makes room at once.
  float* Make(int64_t count, int64_t margin = 0) { return packed_.Make(count, margin); }
  // Has Pack call `fill`, which reads `sources`: before, their data may not be there.
  void Later(const std::vector<std::span<const std::byte>>& sources,
             std::function<void()> fill);

  void Pack();

  const PackedWeights& packed() const { return packed_; }

 private:
  MatrixView Room(const std::vector<std::string>& bases, int64_t outputs,
                  const MatrixUse& use);
  // A table whose numbers are `more` larger.
  const float* Raised(std::string_view name, float more);
  // Has Pack fill in a base whose pieces, of so many rows, lie apart: piece i begins at
  // output at(i).
  void FillLater(const MatrixView& room, const std::string& base, int64_t piece,
                 const std::function<int64_t(int64_t)>& at);

  // Part of what Pack does: reads weights from `begin` to `end`.
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
