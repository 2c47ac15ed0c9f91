// SPDX-License-Identifier: MIT
#include "train/data/token_view.h"

#include <algorithm>
#include <bit>

#include "base/files/mapped_file.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class Stored>
void Widen(const char* from, int64_t count, int64_t* to) {
  const auto* const tokens = reinterpret_cast<const Stored*>(from);
  std::copy(tokens, tokens + count, to);
}

void Widen(TokenWidth width, const char* from, int64_t count, int64_t* to) {
  switch (width) {
    case TokenWidth::kOne:
      return Widen<uint8_t>(from, count, to);
    case TokenWidth::kTwo:
      return Widen<uint16_t>(from, count, to);
    case TokenWidth::kFour:
      return Widen<uint32_t>(from, count, to);
  }
}

}  // namespace

TokenWidth WidthFor(int64_t vocab) {
  if (vocab <= 1 << 8) return TokenWidth::kOne;
  return vocab <= 1 << 16 ? TokenWidth::kTwo : TokenWidth::kFour;
}

TokenView::TokenView(std::span<const int32_t> tokens)
    : TokenView({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()},
                TokenWidth::kFour, int64_t{1} << 31, "a text") {}

TokenView::TokenView(std::string_view bytes, TokenWidth width, int64_t vocab,
                     std::string_view name)
    : data_(bytes.data()),
      width_(width),
      size_(static_cast<int64_t>(bytes.size()) / static_cast<int64_t>(width)),
      vocab_(vocab),
      name_(name) {}

TokenView TokenView::Part(int64_t begin, int64_t count) const {
  TokenView part = *this;
  part.data_ += begin * static_cast<int64_t>(width_);
  part.size_ = count;
  part.first_ += begin;
  return part;
}

absl::Status TokenView::Append(int64_t begin, int64_t count,
                               std::vector<int64_t>& to) const {
  const size_t old = to.size();
  to.resize(old + static_cast<size_t>(count));
  const char* const from = data_ + begin * static_cast<int64_t>(width_);
  Widen(width_, from, count, to.data() + old);
  // Checks the copy, because the file may change meanwhile.
  const auto first = to.begin() + static_cast<int64_t>(old);
  const auto found =
      std::find_if(first, to.end(), [&](int64_t token) { return token >= vocab_; });
  if (found == to.end()) return absl::OkStatus();
  const int64_t number = first_ + begin + (found - first);
  const absl::Status status =
      absl::DataLossError(StrCat(Quoted(name_), " is damaged: token ", number, " is ",
                                 *found, ", its vocabulary ends at ", vocab_ - 1));
  to.resize(old);
  return status;
}

void TokenView::ReadAhead(int64_t begin, int64_t count) const {
  const auto width = static_cast<int64_t>(width_);
  mnemon::ReadAhead({data_ + begin * width, static_cast<size_t>(count * width)});
}

}  // namespace mnemon
