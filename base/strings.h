// SPDX-License-Identifier: MIT
// StrCat and StrJoin for std::string_view. Debian builds abseil with its own
// string_view, which does not convert to or from std::string_view.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace mnemon {

template <class T>
decltype(auto) StrCatPiece(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return absl::string_view(value.data(), value.size());
  } else {
    return (value);
  }
}

// Like absl::StrCat, also for std::string_view.
template <class... Args>
std::string StrCat(const Args&... args) {
  return absl::StrCat(StrCatPiece(args)...);
}

// The elements of `range`, each formatted by StrCat, separated by `separator`.
template <class Range>
std::string StrJoin(const Range& range, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& element : range) {
    if (!first) out += separator;
    first = false;
    absl::StrAppend(&out, StrCatPiece(element));
  }
  return out;
}

}  // namespace mnemon
