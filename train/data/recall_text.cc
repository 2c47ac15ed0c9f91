// SPDX-License-Identifier: MIT
#include "train/data/recall_text.h"

#include "base/check.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr int64_t kLetters = 26;
constexpr int64_t kDigits = 10;
constexpr int64_t kFactLength = 3;      // "7A "
constexpr int64_t kQuestionLength = 4;  // "?A7 "
constexpr int64_t kQuestionsPerFact = 3;
constexpr int64_t kLongestWord = 8;
constexpr int64_t kSignEvery = 8;  // words
// Lower-case letters as often as English has them.
constexpr std::string_view kProse =
    "eeeeeeeeeeeettttttttaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddlllluuu"
    "cccmmmwwffggyyppbbvkjxqz";
constexpr std::string_view kSigns = "\n!\"'(),-.:;?";

char Plus(char first, int64_t n) { return static_cast<char>(first + n); }

}  // namespace

std::string_view RecallAlphabet() {
  return "\n "
         "!\"'(),-.0123456789:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
}

int64_t LeastRecallLength(int64_t facts) {
  return facts * (kFactLength + kQuestionsPerFact * kQuestionLength);
}

RecallText DrawRecallText(int64_t facts, int64_t length, const Draw& draw) {
  MNEMON_CHECK(facts >= 1 && length >= LeastRecallLength(facts));
  int64_t drawn = 0;
  const auto below = [&](int64_t n) { return draw(n, drawn++); };
  RecallText text;
  std::string letters;  // that have a digit, as often as they were given one
  std::vector<char> digits(kLetters);  // the latest
  for (int64_t i = 0; i < facts; ++i) {
    const int64_t letter = below(kLetters);
    digits[letter] = Plus('0', below(kDigits));
    letters.push_back(Plus('A', letter));
    text.text.push_back(digits[letter]);
    text.facts.push_back(static_cast<int64_t>(text.text.size()));
    text.text += StrCat(std::string(1, letters.back()), " ");
  }
  const int64_t questions = kQuestionsPerFact * facts;
  const auto end = static_cast<size_t>(length - questions * kQuestionLength);
  while (text.text.size() < end) {
    const int64_t shape = below(kSignEvery * kLongestWord);
    std::string word;
    for (int64_t i = 0; i <= shape % kLongestWord; ++i) {
      word.push_back(kProse[below(kProse.size())]);
    }
    if (shape < kLongestWord) word.push_back(kSigns[below(kSigns.size())]);
    text.text += StrCat(word, " ");
  }
  text.text.resize(end);
  text.text.back() = ' ';
  for (int64_t i = 0; i < questions; ++i) {
    const char letter = letters[below(facts)];
    text.text += "?";
    text.questions.push_back(static_cast<int64_t>(text.text.size()));
    text.text +=
        StrCat(std::string(1, letter), std::string(1, digits[letter - 'A']), " ");
  }
  return text;
}

}  // namespace mnemon
