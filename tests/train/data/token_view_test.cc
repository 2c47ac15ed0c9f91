// SPDX-License-Identifier: MIT
#include "train/data/token_view.h"

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Stored>
std::string Bytes(const std::vector<Stored>& tokens) {
  std::string bytes(tokens.size() * sizeof(Stored), '\0');
  std::memcpy(bytes.data(), tokens.data(), bytes.size());
  return bytes;
}

std::vector<int64_t> Read(const TokenView& view, int64_t begin, int64_t count) {
  std::vector<int64_t> tokens = {-7};
  EXPECT_TRUE(view.Append(begin, count, tokens).ok());
  EXPECT_EQ(tokens.front(), -7);
  tokens.erase(tokens.begin());
  return tokens;
}

TEST(TokenView, WidthsAreTheNarrowest) {
  EXPECT_EQ(WidthFor(1), TokenWidth::kOne);
  EXPECT_EQ(WidthFor(256), TokenWidth::kOne);
  EXPECT_EQ(WidthFor(257), TokenWidth::kTwo);
  EXPECT_EQ(WidthFor(65536), TokenWidth::kTwo);
  EXPECT_EQ(WidthFor(65537), TokenWidth::kFour);
}

TEST(TokenView, ReadsEveryWidth) {
  const std::string one = Bytes<uint8_t>({1, 255, 3}),
                    two = Bytes<uint16_t>({1, 65535, 3}),
                    four = Bytes<uint32_t>({1, 70000, 3});
  EXPECT_THAT(Read({one, TokenWidth::kOne, 256, "f"}, 0, 3), ElementsAre(1, 255, 3));
  EXPECT_THAT(Read({two, TokenWidth::kTwo, 65536, "f"}, 1, 2), ElementsAre(65535, 3));
  const TokenView wide(four, TokenWidth::kFour, 70001, "f");
  EXPECT_EQ(wide.size(), 3);
  EXPECT_THAT(Read(wide.Part(1, 2), 0, 1), ElementsAre(70000));
  EXPECT_THAT(Read(wide.Part(1, 2).Part(1, 1), 0, 1), ElementsAre(3));
  EXPECT_THAT(Read(wide, 3, 0), ElementsAre());
  const std::vector<int32_t> text = {5, 6, 7};
  EXPECT_THAT(Read(std::span(text), 0, 3), ElementsAre(5, 6, 7));
}

TEST(TokenView, NamesTheFirstTokenBeyondTheVocabulary) {
  const std::string bytes = Bytes<uint32_t>({0, 9, 10, 4000000000, 1});
  const TokenView view(bytes, TokenWidth::kFour, 10, "some.tokens");
  std::vector<int64_t> tokens = {1};
  EXPECT_TRUE(view.Append(0, 2, tokens).ok());
  const absl::Status status = view.Part(1, 4).Append(0, 4, tokens);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'some.tokens' is damaged: token 2 is 10, its vocabulary ends "
                        "at 9"));
  EXPECT_THAT(tokens, ElementsAre(1, 0, 9));
  EXPECT_THAT(std::string(view.Append(3, 1, tokens).message()),
              HasSubstr("token 3 is 4000000000"));
}

}  // namespace
}  // namespace mnemon
