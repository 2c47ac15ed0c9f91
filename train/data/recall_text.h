// SPDX-License-Identifier: MIT
// A text of the task recall: facts, a digit and the letter that has it ("7A "); then
// words in lower case that mean nothing; then questions ("?A7 ").
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

// draw(n, i): number i of a text, uniform in 0 .. n - 1.
using Draw = std::function<int64_t(int64_t n, int64_t i)>;

// Every character that such a text may have, in the order of code points; digits,
// letters and signs of prose.
std::string_view RecallAlphabet();

struct RecallText {
  std::string text;
  // Places of the letters in facts and in questions. In a fact the digit stands
  // before the letter, in a question the answer behind it.
  std::vector<int64_t> facts;
  std::vector<int64_t> questions;
};

// The shortest text of so many facts.
int64_t LeastRecallLength(int64_t facts);

// `facts` facts of letters drawn with replacement, and three times as many questions
// about those letters, whose latest digit is the answer; between them words fill up
// `length` characters. Takes the numbers 0 .. length - 1 of `draw` at most. REQUIRES:
// length >= LeastRecallLength(facts), facts >= 1.
RecallText DrawRecallText(int64_t facts, int64_t length, const Draw& draw);

}  // namespace mnemon
