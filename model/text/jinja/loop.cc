// SPDX-License-Identifier: MIT
#include "model/text/jinja/loop.h"

#include <utility>

#include "base/status_macros.h"
#include "model/text/jinja/operators.h"

namespace mnemon::jinja {
namespace {

absl::Status ReadAhead(Loop& loop) {
  if (loop.after.has_value()) return absl::OkStatus();
  MNEMON_ASSIGN_OR_RETURN(loop.after, loop.source->next());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LoopLength(Runtime& runtime, Loop& loop) {
  if (loop.length.has_value()) return *loop.length;
  loop.length = LengthOf(loop.iterable);
  if (loop.length.has_value()) return *loop.length;
  MNEMON_ASSIGN_OR_RETURN(std::vector<Value> rest, Collect(runtime, loop.source));
  loop.length = static_cast<int64_t>(rest.size()) + loop.index0 + 1 +
                (loop.after.has_value() ? 1 : 0);
  MNEMON_ASSIGN_OR_RETURN(const Value list, runtime.NewSequence(std::move(rest)));
  MNEMON_ASSIGN_OR_RETURN(loop.source, Iterate(runtime, list));
  return *loop.length;
}

Value OfNumber(int64_t number) { return Value(static_cast<Int>(number)); }

}  // namespace

absl::StatusOr<bool> AdvanceLoop(Loop& loop) {
  MNEMON_RETURN_IF_ERROR(ReadAhead(loop));
  if (!loop.after.has_value()) return false;
  ++loop.index0;
  loop.before = std::exchange(loop.current, std::exchange(loop.after, std::nullopt));
  return true;
}

absl::StatusOr<std::optional<Value>> LoopProperty(Runtime& runtime, Loop& loop,
                                                  std::string_view name) {
  if (name == "index") return OfNumber(loop.index0 + 1);
  if (name == "index0") return OfNumber(loop.index0);
  if (name == "first") return Value::OfBool(loop.index0 == 0);
  if (name == "depth") return OfNumber(loop.depth0 + 1);
  if (name == "depth0") return OfNumber(loop.depth0);
  if (name == "previtem") {
    return loop.index0 == 0 || !loop.before.has_value()
               ? Value::Missing("there is no previous item")
               : *loop.before;
  }
  if (name == "last" || name == "nextitem") {
    MNEMON_RETURN_IF_ERROR(ReadAhead(loop));
    if (name == "last") return Value::OfBool(!loop.after.has_value());
    return loop.after.value_or(Value::Missing("there is no next item"));
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    MNEMON_ASSIGN_OR_RETURN(const int64_t length, LoopLength(runtime, loop));
    if (name == "length") return OfNumber(length);
    return OfNumber(length - loop.index0 - (name == "revindex0" ? 1 : 0));
  }
  return std::nullopt;
}

absl::StatusOr<Value> CallLoopMethod(Runtime& runtime, Loop& loop,
                                     std::string_view name,
                                     const Arguments& arguments) {
  const std::vector<Value>& values = arguments.positional;
  if (name == "cycle") {
    if (values.empty()) return Fail("no items for cycling given");
    return values[static_cast<size_t>(loop.index0) % values.size()];
  }
  bool same =
      loop.last_changed.has_value() && loop.last_changed->size() == values.size();
  for (size_t i = 0; same && i < values.size(); ++i) {
    MNEMON_ASSIGN_OR_RETURN(same, Equal(runtime, (*loop.last_changed)[i], values[i]));
  }
  if (!same) loop.last_changed = values;
  return Value::OfBool(!same);
}

absl::StatusOr<std::string> DescribeLoop(Runtime& runtime, Loop& loop) {
  MNEMON_ASSIGN_OR_RETURN(const int64_t length, LoopLength(runtime, loop));
  return StrCat("<LoopContext ", loop.index0 + 1, "/", length, ">");
}

}  // namespace mnemon::jinja
