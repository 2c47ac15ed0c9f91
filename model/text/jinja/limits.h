// SPDX-License-Identifier: MIT
// Limits of a template. Exceeding one is RESOURCE_EXHAUSTED.
#pragma once

#include <cstdint>

namespace mnemon::jinja {

inline constexpr int64_t kMaxSourceBytes = int64_t{1} << 20;
// Nesting of expressions and blocks; each operator of `a + b + c` counts.
inline constexpr int kMaxTreeDepth = 200;
// Nesting of calls of macros and of recursive loops.
inline constexpr int kMaxCallDepth = 100;
// Nesting of both together: nodes of the tree under evaluation.
inline constexpr int kMaxEvaluationDepth = 600;
// Nesting of lists and dictionaries.
inline constexpr int kMaxValueDepth = 100;
// Steps: evaluated nodes, new elements of lists, and new texts in units of kStepBytes.
inline constexpr int64_t kMaxSteps = 4'000'000;
inline constexpr int64_t kStepBytes = 32;
// Weights of operations that take more time or memory than others.
inline constexpr int64_t kDictEntrySteps = 8;
inline constexpr int64_t kNamespaceSteps = 8;
inline constexpr int64_t kMacroSteps = 24;
inline constexpr int64_t kCaseStepBytes = 4;
inline constexpr int64_t kMaxTextBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxOutputBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxRange = 100'000;

}  // namespace mnemon::jinja
