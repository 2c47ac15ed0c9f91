// SPDX-License-Identifier: MIT
// Attributes: the non-mutating methods of str, list and dict, and the attributes of
// namespaces and of loop.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

// Whether some kind of value has the method, or Python has it and the sandbox of jinja2
// refuses it at run time.
bool IsMethodName(std::string_view name);

// nullopt if `value` has no such method or attribute; undefined if the sandbox hides
// it. Keys are not attributes.
absl::StatusOr<std::optional<Value>> PropertyOf(Runtime& runtime, const Value& value,
                                                std::string_view name);
// REQUIRES: `method` is a method.
absl::StatusOr<Value> CallMethod(Runtime& runtime, const Callable& method,
                                 const Arguments& arguments);

// text_methods.cc
using TextMethod = absl::StatusOr<Value> (*)(Runtime& runtime, const Text& self,
                                             const Arguments& arguments);
// Null if there is none.
TextMethod FindTextMethod(std::string_view name);
// A list of strings.
absl::StatusOr<Value> ListOfTexts(Runtime& runtime,
                                  const std::vector<std::string_view>& pieces);
// Replaces at most `count` occurrences of `old`, all if negative, like str.replace.
absl::StatusOr<Value> ReplaceText(Runtime& runtime, std::string_view text,
                                  std::string_view old, std::string_view by,
                                  int64_t count);
// Joins the strings of `items`; `strict`: other values are errors.
absl::StatusOr<Value> JoinTexts(Runtime& runtime, std::string_view between,
                                Iterator& items, bool strict);
// Like str.center, ljust and rjust. `left`: half units of padding on the left, 0 to 2.
absl::StatusOr<Value> PadText(Runtime& runtime, const Text& text, int64_t width,
                              std::string_view fill, int left);

}  // namespace mnemon::jinja
