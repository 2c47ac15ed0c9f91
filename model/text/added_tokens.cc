// SPDX-License-Identifier: MIT
#include "model/text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "model/text/unicode/unicode.h"

namespace mnemon {
namespace {

bool BeginsWith(CharacterClass of, std::string_view text) {
  size_t at = 0;
  char32_t character = 0;
  return NextCodePoint(text, at, character) && IsIn(of, character);
}

// Offset of the last character of `text`.
size_t LastOf(std::string_view text) {
  size_t at = text.size();
  while (at > 0 && (static_cast<unsigned char>(text[--at]) & 0xC0) == 0x80) {
  }
  return at;
}

bool EndsWith(CharacterClass of, std::string_view text) {
  return !text.empty() && BeginsWith(of, text.substr(LastOf(text)));
}

}  // namespace

void AddedTokens::Add(std::string content, const AddedToken& token) {
  if (content.empty()) return;
  std::vector<size_t>& same = by_first_[static_cast<uint8_t>(content[0])];
  const auto at = std::ranges::find_if(same, [&](size_t index) {
    return tokens_[index].content.size() < content.size();
  });
  same.insert(at, tokens_.size());
  tokens_.push_back({std::move(content), token});
}

const AddedTokens::Wanted* AddedTokens::Match(std::string_view rest) const {
  for (const size_t index : by_first_[static_cast<uint8_t>(rest[0])]) {
    if (rest.starts_with(tokens_[index].content)) return &tokens_[index];
  }
  return nullptr;
}

void AddedTokens::Cut(
    std::string_view text,
    const std::function<absl::Status(std::string_view, size_t)>& on_text,
    const std::function<void(int32_t)>& on_token, absl::Status& status) const {
  size_t done = 0;
  const auto text_up_to = [&](size_t end) {
    if (done < end && status.ok())
      status = on_text(text.substr(done, end - done), done);
  };
  const auto begins_none = [&](char byte) {
    return by_first_[static_cast<uint8_t>(byte)].empty();
  };
  for (size_t at = none() ? text.size() : 0; status.ok();) {
    while (at < text.size() && begins_none(text[at])) ++at;
    if (at == text.size()) break;
    const Wanted* const found = Match(text.substr(at));
    if (found == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + found->content.size();
    at = end;
    const AddedToken& token = found->token;
    if (token.single_word &&
        (EndsWith(CharacterClass::kWordPart, text.substr(0, begin)) ||
         BeginsWith(CharacterClass::kWordPart, text.substr(end)))) {
      continue;
    }
    while (token.left && begin > done &&
           EndsWith(CharacterClass::kSpace, text.substr(0, begin))) {
      begin = LastOf(text.substr(0, begin));
    }
    begin = std::max(begin, done);
    while (token.right && BeginsWith(CharacterClass::kSpace, text.substr(end))) {
      char32_t character = 0;
      if (!NextCodePoint(text, end, character)) break;
    }
    text_up_to(begin);
    if (!status.ok()) return;
    on_token(token.id);
    done = end;
  }
  text_up_to(text.size());
}

}  // namespace mnemon
