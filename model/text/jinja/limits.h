// SPDX-License-Identifier: MIT
// What a template may use. Beyond it the answer is RESOURCE_EXHAUSTED.
#pragma once

#include <cstdint>

namespace mnemon::jinja {

inline constexpr int64_t kMaxSourceBytes = int64_t{1} << 20;
// Of expressions and blocks within each other, where each operator of `a + b + c`
// counts.
inline constexpr int kMaxTreeDepth = 200;
// Of macros that call macros, and of recursive loops.
inline constexpr int kMaxCallDepth = 100;
// Of the two above together: nodes of the tree that are being evaluated.
inline constexpr int kMaxEvaluationDepth = 600;
// Of lists and dictionaries within each other.
inline constexpr int kMaxValueDepth = 100;
// Nodes evaluated, elements of lists made, and texts made in units of kStepBytes.
inline constexpr int64_t kMaxSteps = 4'000'000;
inline constexpr int64_t kStepBytes = 32;
// What takes longer or more memory than others of its kind.
inline constexpr int64_t kDictEntrySteps = 8;
inline constexpr int64_t kNamespaceSteps = 8;
inline constexpr int64_t kMacroSteps = 24;
inline constexpr int64_t kCaseStepBytes = 4;
inline constexpr int64_t kMaxTextBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxOutputBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxRange = 100'000;

}  // namespace mnemon::jinja
