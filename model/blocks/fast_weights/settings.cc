// SPDX-License-Identifier: MIT
#include "model/blocks/fast_weights/settings.h"

#include "base/strings.h"

namespace mnemon {
namespace {

void AddNormaliser(const FastWeights& fast, const std::string& owner, StateSpec& spec) {
  if (!fast.normalised) return;
  spec.entries.push_back(
      {.name = owner + ".z", .shape = {fast.heads, fast.features()}});
}

}  // namespace

std::vector<std::string> FaultsOf(const FastWeights& fast) {
  if (fast.heads < 1 || fast.width < 1) return {"no heads or width"};
  std::vector<std::string> faults;
  if (fast.map.elu) {
    if (fast.map.nu != 1) faults.emplace_back("an order of features that have none");
    if (fast.width % 2 != 0) faults.emplace_back("heads of odd width with ELU");
    return faults;
  }
  // For nu >= 2K products repeat.
  if (fast.map.nu < 1 || fast.map.nu >= 2 * fast.width) {
    faults.push_back(StrCat("the order of features is ", fast.map.nu,
                            ", not from 1 to below twice the width of a head"));
  }
  return faults;
}

void AddTensors(const FastWeights& fast, const std::string& base, int64_t width,
                TensorList& list) {
  // Rounding errors would accumulate in the state.
  const MatrixUse exact = {.exact = true};
  const int64_t all = fast.heads * fast.width;
  for (const char* part : {".query", ".key", ".value"}) {
    list.Linear(base + part, all, width, /*bias=*/false, exact);
  }
  if (fast.rule == UpdateRule::kDelta) {
    list.Linear(base + ".gate", fast.heads, width, /*bias=*/false, exact);
  }
  list.Linear(base + ".output", width, all, /*bias=*/true, exact);
}

void AddState(const FastWeights& fast, const std::string& owner, StateSpec& spec) {
  spec.entries.push_back(
      {.name = owner + ".wt", .shape = {fast.heads, fast.features(), fast.width}});
  AddNormaliser(fast, owner, spec);
}

void AddCarry(const FastWeights& fast, const std::string& owner, StateSpec& spec) {
  spec.entries.push_back(
      {.name = owner + ".w", .shape = {fast.heads, fast.width, fast.features()}});
  AddNormaliser(fast, owner, spec);
}

}  // namespace mnemon
