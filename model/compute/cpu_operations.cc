// SPDX-License-Identifier: MIT
#include "model/compute/cpu_operations.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "model/compute/int8_rows.h"
#include "model/compute/row_buffer.h"
#include "model/compute/simd_operations.h"

namespace mnemon {
namespace {

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

const std::vector<CpuOperations>& All() {
  static const std::vector<CpuOperations> all = [] {
    std::vector<CpuOperations> found = SimdOperations();
    found.push_back(ReferenceOperations());
    return found;
  }();
  return all;
}

}  // namespace

int64_t LinearScratch(int64_t rows, int64_t inputs) {
  // Rows that are normed or picked, totals of two panels and sums that wait for the
  // rest, and part of those panels in float32. In int8: one row that is normed, rows as
  // int8, which take no more than they did, and totals.
  return rows * (RowStride(inputs) + 4 * kPanel) + RowStride(inputs) +
         2 * (kScratchInputs + 1) * kPanel;
}

int64_t LinearScratch(int64_t rows, const MatrixView& weights) {
  const int64_t usual = LinearScratch(rows, weights.inputs);
  if (weights.format != WeightFormat::kInt8) return usual;
  const Int8Room room(rows, weights, {0, weights.slices()});
  return std::max(usual,
                  RowStride(weights.inputs) + room.floats() + Int8TotalFloats(rows));
}

int64_t ScratchFloats(const FastWeightCall& call) {
  return 2 * call.map.features(call.width) + 4 * call.width;
}

std::span<const CpuOperations> AllCpuOperations() { return All(); }

std::vector<std::string> CpuTargets() {
  std::vector<std::string> names;
  for (const CpuOperations& operations : All()) {
    std::string name = Lower(operations.target);
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  return names;
}

absl::StatusOr<const CpuOperations*> FindCpuOperations(std::string_view target) {
  for (const CpuOperations& operations : All()) {
    if (target.empty() || Lower(operations.target) == target) return &operations;
  }
  return InvalidField("target",
                      StrCat("--target ", target, ": this build and machine have ",
                             StrJoin(CpuTargets(), ", ")));
}

}  // namespace mnemon
