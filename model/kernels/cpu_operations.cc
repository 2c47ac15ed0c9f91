// SPDX-License-Identifier: MIT
#include "model/kernels/cpu_operations.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/strings.h"
#include "model/kernels/row_buffer.h"
#include "model/kernels/simd_operations.h"

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
  // rest, and part of those panels in float32.
  return rows * (RowStride(inputs) + 4 * kPanel) + 2 * (kScratchInputs + 1) * kPanel;
}

int64_t ScratchFloats(const FastWeightCall& call) {
  return (2 * call.nu * 2 + 4) * call.width;
}

std::vector<std::string> CpuTargets() {
  std::vector<std::string> names;
  for (const CpuOperations& operations : All())
    names.push_back(Lower(operations.target));
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
