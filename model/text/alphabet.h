// SPDX-License-Identifier: MIT
// Display text for the characters of a tokenizer.
#pragma once

#include <string>
#include <vector>

namespace mnemon {

// "newline space ! , . 0-9 a-z": in the order of code points, with digits, letters and
// characters beyond ASCII as ranges; truncated at about 200 bytes, as "a-z and 70
// more".
std::string DescribeAlphabet(std::vector<char32_t> characters);

}  // namespace mnemon
