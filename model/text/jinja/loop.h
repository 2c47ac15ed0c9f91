// SPDX-License-Identifier: MIT
// The object `loop` of a for block. As in jinja2 it reads ahead one element, or all of
// them for the length of an iterator without one; a filter of the loop can observe
// this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

struct Statement;
struct Frame;

struct Loop {
  Value iterable;
  std::shared_ptr<Iterator> source;
  const Statement* recursive = nullptr;  // the block, if it calls itself
  Frame* frame = nullptr;                // enclosing frame
  int depth0 = 0;
  int64_t index0 = -1;
  std::optional<int64_t> length = std::nullopt;
  std::optional<Value> after = std::nullopt;  // read ahead
  std::optional<Value> current = std::nullopt, before = std::nullopt;
  std::optional<std::vector<Value>> last_changed = std::nullopt;
};

// Moves to the next element; false at the end.
absl::StatusOr<bool> AdvanceLoop(Loop& loop);
// nullopt if there is no such attribute.
absl::StatusOr<std::optional<Value>> LoopProperty(Runtime& runtime, Loop& loop,
                                                  std::string_view name);
absl::StatusOr<Value> CallLoopMethod(Runtime& runtime, Loop& loop,
                                     std::string_view name, const Arguments& arguments);
// Text of the loop when printed.
absl::StatusOr<std::string> DescribeLoop(Runtime& runtime, Loop& loop);

}  // namespace mnemon::jinja
