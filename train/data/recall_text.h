// SPDX-License-Identifier: MIT
// A text of the task recall: facts, each a digit and the letter that has it ("7A ");
// then meaningless words in lower case; then questions ("?A7 ").
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

// draw(n, i): random number i of a text, uniform in 0 .. n - 1.
using Draw = std::function<int64_t(int64_t n, int64_t i)>;

// Every character that such a text may have, by code point: digits, letters and
// punctuation.
std::string_view RecallAlphabet();

struct RecallText {
  std::string text;
  // Positions of the letters in facts and in questions. In a fact the digit precedes
  // the letter; in a question the answer follows it.
  std::vector<int64_t> facts;
  std::vector<int64_t> questions;
};

// Length of the shortest text with this number of facts.
int64_t LeastRecallLength(int64_t facts);

// Draws `facts` facts, their letters with replacement, and three times as many
// questions about those letters; the answer is a letter's latest digit. Words between
// them fill the text up to `length` characters. Uses at most the numbers 0 .. length -
// 1 of `draw`. REQUIRES: length >= LeastRecallLength(facts), facts >= 1.
RecallText DrawRecallText(int64_t facts, int64_t length, const Draw& draw);

}  // namespace mnemon
