// SPDX-License-Identifier: MIT
#include "train/data/text_survey.h"

#include "base/utf8.h"

namespace mnemon {
namespace {

constexpr size_t kCodePoints = 0x110000;

}  // namespace

TextSurvey::TextSurvey() : seen_(kCodePoints / 64) {}

std::optional<int64_t> TextSurvey::Add(std::string_view block) {
  // Not in the member, whose cache line may be that of another thread's survey.
  int64_t characters = 0;
  std::optional<int64_t> wrong;
  for (size_t at = 0; at < block.size();) {
    char32_t character = static_cast<unsigned char>(block[at]);
    if (character < 0x80) {
      ++at;
    } else if (!NextCodePoint(block, at, character)) {
      wrong = static_cast<int64_t>(at);
      break;
    }
    Mark(character);
    ++characters;
  }
  characters_ += characters;
  return wrong;
}

void TextSurvey::Add(const TextSurvey& other) {
  for (size_t i = 0; i < seen_.size(); ++i) seen_[i] |= other.seen_[i];
  characters_ += other.characters_;
}

std::vector<char32_t> TextSurvey::Alphabet() const {
  std::vector<char32_t> alphabet;
  for (size_t i = 0; i < kCodePoints; ++i) {
    if ((seen_[i / 64] >> (i % 64)) & 1) alphabet.push_back(static_cast<char32_t>(i));
  }
  return alphabet;
}

}  // namespace mnemon
