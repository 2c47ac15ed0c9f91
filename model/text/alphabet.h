// SPDX-License-Identifier: MIT
// The characters of a tokenizer as text for people.
#pragma once

#include <string>
#include <vector>

namespace mnemon {

// "newline space ! , . 0-9 a-z": in the order of code points, digits, letters and what
// is beyond ASCII as ranges; cut at about 200 bytes, as "a-z and 70 more".
std::string DescribeAlphabet(std::vector<char32_t> characters);

}  // namespace mnemon
