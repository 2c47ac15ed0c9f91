// SPDX-License-Identifier: MIT
// What is behind the dot: the methods of str, list and dict that leave them as they
// are, the attributes of namespaces and of loop.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

// A method of some kind of value, or one that Python has and the sandbox of jinja2
// refuses when it runs.
bool IsMethodName(std::string_view name);

// nullopt when `value` has no such method or attribute; undefined when the sandbox
// keeps it away. Keys are none.
absl::StatusOr<std::optional<Value>> PropertyOf(Runtime& runtime, const Value& value,
                                                std::string_view name);
// REQUIRES: a method.
absl::StatusOr<Value> CallMethod(Runtime& runtime, const Callable& method,
                                 const Arguments& arguments);

// text_methods.cc
using TextMethod = absl::StatusOr<Value> (*)(Runtime& runtime, const Text& self,
                                             const Arguments& arguments);
// Null when there is none.
TextMethod FindTextMethod(std::string_view name);
// The pieces as a list of strings.
absl::StatusOr<Value> ListOfTexts(Runtime& runtime,
                                  const std::vector<std::string_view>& pieces);
// `old` for at most `count` occurrences, all when it is negative, as str.replace.
absl::StatusOr<Value> ReplaceText(Runtime& runtime, std::string_view text,
                                  std::string_view old, std::string_view by,
                                  int64_t count);
// The strings of `items` with `between`; `strict`: anything else is an error.
absl::StatusOr<Value> JoinTexts(Runtime& runtime, std::string_view between,
                                Iterator& items, bool strict);
// As str.center, ljust and rjust: `left` of the padding stands before it, of 0 to 2
// halves.
absl::StatusOr<Value> PadText(Runtime& runtime, const Text& text, int64_t width,
                              std::string_view fill, int left);

}  // namespace mnemon::jinja
