// SPDX-License-Identifier: MIT
#include "server/engine/token_history.h"

#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

std::vector<int32_t> All(const TokenHistory& history) {
  std::vector<int32_t> tokens(history.size());
  history.Read(0, tokens);
  return tokens;
}

std::vector<int32_t> Draw(std::mt19937& random, size_t below) {
  std::vector<int32_t> tokens(random() % below);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 1000);
  return tokens;
}

// Random changes against a vector, and against what an observer makes of the events.
TEST(TokenHistory, EqualsAVectorAndItsEvents) {
  const std::string id = "s";
  std::vector<int32_t> expected, seen;
  int64_t size_before = 0;
  const HistoryObserver observer = [&](const HistoryChange& change) {
    EXPECT_EQ(change.session, "s");
    EXPECT_EQ(change.history.size(), size_before);
    ASSERT_LE(change.kept, static_cast<int64_t>(seen.size()));
    seen.resize(change.size);
    change.history.Read(change.kept, std::span(seen).subspan(change.kept));
  };
  TokenHistory history(id, &observer);
  std::mt19937 random(3);
  std::vector<int32_t> staged;
  for (int round = 0; round < 3000; ++round) {
    size_before = history.size();
    const uint64_t version = history.version();
    const auto tokens = Draw(random, random() % 8 == 0 ? 3000 : 40);
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
  const std::string id = "s";
  int events = 0;
  const HistoryObserver observer = [&](const HistoryChange&) { ++events; };
  TokenHistory history(id, &observer);
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

TEST(TokenHistory, IsCopiedWithoutWhatIsStaged) {
  const std::string id = "s";
  for (const size_t size : {0, 1, 511, 512, 513, 1024, 3000}) {
    std::vector<int32_t> tokens(size);
    for (size_t i = 0; i < size; ++i) tokens[i] = static_cast<int32_t>(7 * i);
    TokenHistory history(id, nullptr), copy(id, nullptr);
    history.Append(tokens);
    ASSERT_TRUE(history.Stage(std::vector<int32_t>{1, 2}, 0));
    ASSERT_TRUE(copy.CopyFrom(history));
    EXPECT_EQ(All(copy), tokens);
    EXPECT_EQ(copy.staged(), 0);
  }
}

}  // namespace
}  // namespace mnemon
