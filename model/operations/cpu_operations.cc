// SPDX-License-Identifier: MIT
#include "model/operations/cpu_operations.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "model/operations/simd_operations.h"

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
