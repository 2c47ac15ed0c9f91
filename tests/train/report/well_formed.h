// SPDX-License-Identifier: MIT
// A checker of markup: what XML asks of elements, attributes and character references.
#pragma once

#include <string>
#include <string_view>

namespace mnemon {

// Empty when `text` is well-formed, else the fault and what follows it. Declarations
// ("<?xml", "<!DOCTYPE") may come first; `html`: meta has no end, and what is in a
// style is no markup.
std::string MarkupFault(std::string_view text, bool html = false);

}  // namespace mnemon
