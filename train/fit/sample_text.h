// SPDX-License-Identifier: MIT
// Sampled text on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace mnemon {

// Sampled bytes as indented lines for a terminal: valid UTF-8, no control characters.
std::string ShowSample(std::string_view sample);

}  // namespace mnemon
