// SPDX-License-Identifier: MIT
#include "server/sessions/token_history.h"

#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

// Calls a function for each change.
class ObserverOf final : public HistoryObserver {
 public:
  using Function =
      std::function<void(const TokenHistory& history, int64_t kept, int64_t size)>;
  explicit ObserverOf(Function function) : function_(std::move(function)) {}
  void OnChange(const TokenHistory& history, int64_t kept,
                int64_t size) noexcept override {
    function_(history, kept, size);
  }

 private:
  const Function function_;
};

std::vector<int32_t> All(const TokenHistory& history) {
  std::vector<int32_t> tokens(history.size());
  history.Read(0, tokens);
  return tokens;
}

// Each with tokens up to the largest that fits.
struct TokenHistoryOf : testing::TestWithParam<int64_t> {
  const int64_t vocab = GetParam();
  const TokenHistory::Width width = TokenHistory::WidthFor(vocab);
  std::mt19937 random{3};

  std::vector<int32_t> Draw(size_t below) {
    std::vector<int32_t> tokens(random() % below);
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(random() % 4 == 0 ? vocab - 1 : random() % vocab);
    }
    return tokens;
  }
};

INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenHistoryOf,
                         testing::Values(256, 65536, int64_t{1} << 31));

// Random changes against a vector, and against what an observer makes of the events.
TEST_P(TokenHistoryOf, EqualsAVectorAndItsEvents) {
  std::vector<int32_t> expected, seen;
  int64_t size_before = 0;
  ObserverOf observer([&](const TokenHistory& changed, int64_t kept, int64_t size) {
    EXPECT_EQ(changed.size(), size_before);
    ASSERT_LE(kept, static_cast<int64_t>(seen.size()));
    seen.resize(size);
    changed.Read(kept, std::span(seen).subspan(kept));
  });
  TokenHistory history({}, width);
  history.SetObserver(&observer);
  std::vector<int32_t> staged;
  for (int round = 0; round < 3000; ++round) {
    size_before = history.size();
    const uint64_t version = history.version();
    const auto tokens = Draw(random() % 8 == 0 ? 3000 : 40);
    switch (random() % 5) {
      case 0:
        history.Append(tokens);
        expected.insert(expected.end(), tokens.begin(), tokens.end());
        staged.clear();
        break;
      case 1: {
        const int64_t kept = static_cast<int64_t>(random() % (expected.size() + 1));
        history.Cut(kept);
        expected.resize(kept);
        staged.clear();
        break;
      }
      case 2:
        ASSERT_TRUE(history.Stage(tokens, static_cast<int64_t>(random() % 600)));
        staged = tokens;
        break;
      case 3:
        history.AppendStaged();
        expected.insert(expected.end(), staged.begin(), staged.end());
        staged.clear();
        break;
      case 4: {
        const int64_t kept = static_cast<int64_t>(random() % (expected.size() + 1));
        history.Change(kept, tokens);
        expected.resize(kept);
        expected.insert(expected.end(), tokens.begin(), tokens.end());
        staged.clear();
        break;
      }
    }
    if (expected.size() > 5000) {
      size_before = history.size();
      history.Cut(0);
      expected.clear();
      staged.clear();
    }
    ASSERT_EQ(All(history), expected);
    ASSERT_EQ(seen, expected);
    ASSERT_EQ(history.staged(), static_cast<int64_t>(staged.size()));
    for (size_t i = 0; i < staged.size(); ++i) {
      ASSERT_EQ(history[expected.size() + i], staged[i]);
    }
    if (history.size() != size_before) {
      ASSERT_NE(history.version(), version);
    }
    if (!expected.empty()) {
      const size_t begin = random() % expected.size();
      std::vector<int32_t> part(random() % (expected.size() - begin + 1));
      history.Read(static_cast<int64_t>(begin), part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + begin));
    }
  }
}

TEST(TokenHistory, WhatIsStagedIsNoPartOfIt) {
  int events = 0;
  ObserverOf observer([&](auto&&...) { ++events; });
  TokenHistory history;
  history.SetObserver(&observer);
  const std::vector<int32_t> tokens = {1, 2, 3};
  ASSERT_TRUE(history.Stage(tokens, 0));
  EXPECT_EQ(history.size(), 0);
  ASSERT_TRUE(history.Stage({}, 0));
  history.AppendStaged();
  EXPECT_EQ(history.size(), 0);
  EXPECT_EQ(history.version(), 0u);
  EXPECT_EQ(events, 0);
  ASSERT_TRUE(history.Stage(tokens, 0));
  history.Cut(0);  // drops them, although nothing is cut
  history.AppendStaged();
  EXPECT_EQ(history.size(), 0);
}

TEST(TokenHistory, IsSharedWithoutWhatIsStaged) {
  for (const size_t size : {0, 1, 511, 512, 513, 1024, 3000}) {
    std::vector<int32_t> tokens(size);
    for (size_t i = 0; i < size; ++i) tokens[i] = static_cast<int32_t>(7 * i);
    TokenHistory history, copy;
    history.Append(tokens);
    ASSERT_TRUE(history.Stage(std::vector<int32_t>{1, 2}, 0));
    ASSERT_TRUE(copy.ShareOf(history, history.size()));
    EXPECT_EQ(All(copy), tokens);
    EXPECT_EQ(copy.staged(), 0);
    history.AppendStaged();
    tokens.push_back(1);
    tokens.push_back(2);
    EXPECT_EQ(All(history), tokens);
  }
}

// A family of histories that share pieces, each against a vector of its own.
TEST_P(TokenHistoryOf, ThoseThatShareGoTheirOwnWays) {
  auto account = std::make_shared<ByteBudget>(ByteBudget::kUnlimited);
  auto bytes = std::make_shared<ByteAccount>(*account);
  struct Member {
    std::unique_ptr<TokenHistory> history;
    std::vector<int32_t> tokens, staged;
  };
  const auto make = [&] {
    return std::make_unique<TokenHistory>(ByteCharge(bytes), width);
  };
  std::vector<Member> family;
  family.push_back({make(), {}, {}});
  for (int round = 0; round < 6000; ++round) {
    Member& one = family[random() % family.size()];
    const auto size = static_cast<int64_t>(one.tokens.size());
    const auto tokens = Draw(random() % 4 == 0 ? 1500 : 40);
    switch (random() % 6) {
      case 0:
      case 1: {
        const int64_t kept =
            random() % 4 == 0 ? static_cast<int64_t>(random() % (size + 1)) : size;
        one.history->Change(kept, tokens);
        one.tokens.resize(static_cast<size_t>(kept));
        one.tokens.insert(one.tokens.end(), tokens.begin(), tokens.end());
        one.staged.clear();
        break;
      }
      case 2:
        ASSERT_TRUE(one.history->Stage(tokens, static_cast<int64_t>(random() % 600)));
        one.staged = tokens;
        break;
      case 3:
        one.history->AppendStaged();
        one.tokens.insert(one.tokens.end(), one.staged.begin(), one.staged.end());
        one.staged.clear();
        break;
      case 4: {
        if (family.size() == 6) {
          std::swap(one, family.back());
          family.pop_back();
          break;
        }
        const auto taken = static_cast<int64_t>(random() % (size + 1));
        Member child{make(), {one.tokens.begin(), one.tokens.begin() + taken}, {}};
        ASSERT_TRUE(child.history->ShareOf(*one.history, taken));
        family.push_back(std::move(child));
        break;
      }
      case 5:
        one.history->TakeUnused();
        one.staged.clear();
        break;
    }
    if (family.front().tokens.size() > 9000) {
      family.front().history->Cut(700);
      family.front().tokens.resize(700);
      family.front().staged.clear();
    }
    for (const Member& member : family) {
      ASSERT_EQ(All(*member.history), member.tokens) << round;
      for (size_t i = 0; i < member.staged.size(); ++i) {
        ASSERT_EQ((*member.history)[member.tokens.size() + i], member.staged[i]);
      }
    }
  }
  family.clear();
  EXPECT_EQ(bytes->bytes(), 0);
}

// What is shared counts once.
TEST(TokenHistory, BecomesALongerOne) {
  for (const int64_t begin : {0, 1, 511, 512, 700, 1024}) {
    for (const int64_t more : {0, 1, 400, 1500}) {
      std::vector<std::pair<int64_t, int64_t>> changes;
      ObserverOf observer([&](const TokenHistory& changed, int64_t kept, int64_t size) {
        changes.emplace_back(kept, size);
        for (int64_t i = 0; i < kept; ++i) ASSERT_EQ(changed[i], i);
      });
      std::vector<int32_t> tokens(static_cast<size_t>(begin + more));
      std::iota(tokens.begin(), tokens.end(), 0);
      TokenHistory history, fork;
      history.SetObserver(&observer);
      history.Append(std::span(tokens).first(static_cast<size_t>(begin)));
      {
        TokenHistory longer;
        ASSERT_TRUE(longer.ShareOf(history, begin));
        longer.Append(std::span(tokens).subspan(static_cast<size_t>(begin)));
        ASSERT_TRUE(fork.ShareOf(history, begin));
        changes.clear();
        history.Become(longer);
      }
      EXPECT_EQ(history.size(), begin + more);
      if (more > 0) {
        EXPECT_EQ(changes, (decltype(changes){{begin, begin + more}}));
      }
      // Neither writes what the other has.
      history.Change(begin / 2, std::vector<int32_t>(900, -1));
      for (int64_t i = 0; i < begin; ++i) ASSERT_EQ(fork[i], i);
    }
  }
}

TEST(TokenHistory, TokensTakeWhatTheVocabularyNeeds) {
  using Width = TokenHistory::Width;
  EXPECT_EQ(TokenHistory::WidthFor(256), Width::k1);
  EXPECT_EQ(TokenHistory::WidthFor(257), Width::k2);
  EXPECT_EQ(TokenHistory::WidthFor(65536), Width::k2);
  EXPECT_EQ(TokenHistory::WidthFor(65537), Width::k4);
  for (const Width width : {Width::k1, Width::k2, Width::k4}) {
    ByteBudget budget(ByteBudget::kUnlimited);
    auto bytes = std::make_shared<ByteAccount>(budget);
    for (const int64_t tokens : {1, 100, 512, 700, 5000}) {
      TokenHistory history(ByteCharge(bytes), width);
      history.Append(std::vector<int32_t>(static_cast<size_t>(tokens), 7));
      history.TakeUnused();
      EXPECT_EQ(bytes->bytes(), history.BytesOf(tokens));
      EXPECT_LT(history.BytesOf(tokens), 2 * tokens * static_cast<int>(width) + 128);
    }
  }
}

TEST_P(TokenHistoryOf, TellsWhatTwoBeginWith) {
  for (const int64_t common : {0, 1, 511, 512, 513, 1300}) {
    TokenHistory one({}, width), other({}, width);
    const std::vector<int32_t> tokens(static_cast<size_t>(common),
                                      static_cast<int32_t>(vocab - 1));
    for (TokenHistory* history : {&one, &other}) history->Append(tokens);
    EXPECT_EQ(one.CommonPrefix(other), common);
    one.Append(std::vector<int32_t>(600, 1));
    EXPECT_EQ(one.CommonPrefix(other), common);
    // Only the highest byte of the second one differs.
    other.Append(std::vector<int32_t>{1, static_cast<int32_t>(1 ^ (vocab / 2))});
    EXPECT_EQ(one.CommonPrefix(other), common + 1);
  }
}

TEST(TokenHistory, SharedPiecesTakeMemoryOnce) {
  ByteBudget budget(ByteBudget::kUnlimited);
  auto bytes = std::make_shared<ByteAccount>(budget);
  TokenHistory history{ByteCharge(bytes)};
  history.Append(std::vector<int32_t>(100000, 3));
  const int64_t before = bytes->bytes();
  EXPECT_GT(before, 400000);
  TokenHistory fork{ByteCharge(bytes)};
  ASSERT_TRUE(fork.ShareOf(history, history.size()));
  EXPECT_LT(bytes->bytes() - before, 4096);
}

}  // namespace
}  // namespace mnemon
