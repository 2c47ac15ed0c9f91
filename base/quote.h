// SPDX-License-Identifier: MIT
// Quoting of untrusted text in error messages.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "base/strings.h"

namespace mnemon {

// `text` in single quotes for an error message, with control characters escaped,
// truncated at about 100 bytes, so that no input can forge or flood a message.
inline std::string Quoted(std::string_view text) {
  constexpr size_t kMost = 100;
  if (text.size() <= kMost) return StrCat("'", EscapeControls(text), "'");
  size_t end = kMost;
  while (end > kMost - 4 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return StrCat("'", EscapeControls(text.substr(0, end)), "...' (", text.size(),
                " bytes)");
}

}  // namespace mnemon
