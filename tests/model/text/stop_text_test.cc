// SPDX-License-Identifier: MIT
#include "model/text/stop_text.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

struct Result {
  std::string text;
  std::optional<std::string> found;
  bool operator==(const Result&) const = default;
};

Result Stopped(const std::vector<std::string>& strings,
               const std::vector<std::string>& pieces) {
  StopText stop(strings);
  Result result;
  for (const std::string& piece : pieces) result.text += stop.Push(piece);
  result.text += stop.Finish();
  result.found = stop.found();
  return result;
}

// The definition: the string whose last byte comes first, the longest of those.
Result Slow(const std::vector<std::string>& strings, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::string> best;
    for (const std::string& s : strings) {
      if (s.size() <= end && text.compare(end - s.size(), s.size(), s) == 0 &&
          (!best || best->size() < s.size())) {
        best = s;
      }
    }
    if (best) return {text.substr(0, end - best->size()), best};
  }
  return {text, std::nullopt};
}

TEST(StopText, WithoutStringsEverythingPasses) {
  StopText stop;
  EXPECT_EQ(stop.Push("abc"), "abc");
  EXPECT_EQ(stop.Finish(), "");
  EXPECT_FALSE(stop.found());
}

TEST(StopText, HoldsBackNoMoreThanItMust) {
  StopText stop({"stop", "top hat"});
  EXPECT_EQ(stop.Push("a st"), "a ");
  EXPECT_EQ(stop.Push("o"), "");
  EXPECT_EQ(stop.Push("x"), "stox");
  EXPECT_EQ(stop.Push("sto"), "");
  EXPECT_EQ(stop.Push("p it"), "");
  EXPECT_EQ(stop.found(), "stop");
  EXPECT_EQ(stop.Push("more"), "");
  EXPECT_EQ(stop.Finish(), "");
}

TEST(StopText, WhatWasHeldComesOutAtTheEnd) {
  StopText stop({"abab!"});
  EXPECT_EQ(stop.Push("xabab"), "x");
  EXPECT_EQ(stop.Push("ab"), "ab");
  EXPECT_EQ(stop.Finish(), "abab");
  EXPECT_FALSE(stop.found());
}

TEST(StopText, TheFirstToBeCompleteWinsThenTheLongest) {
  EXPECT_EQ(Stopped({"abc", "b"}, {"xabc"}), (Result{"xa", "b"}));
  EXPECT_EQ(Stopped({"b", "ab"}, {"xabc"}), (Result{"x", "ab"}));
  EXPECT_EQ(Stopped({"ab", "b"}, {"xabc"}), (Result{"x", "ab"}));
  EXPECT_EQ(Stopped({"longer than the text"}, {"longer"}), (Result{"longer", {}}));
}

TEST(StopText, CharactersOfSeveralBytesStayWhole) {
  // U+20AC and U+20AD share their first two bytes.
  StopText stop({"\xe2\x82\xac!"});
  EXPECT_EQ(stop.Push("\xe2\x82\xad"), "\xe2\x82\xad");
  EXPECT_EQ(stop.Push("\xe2\x82\xac"), "");
  EXPECT_EQ(stop.Push("?"), "\xe2\x82\xac?");
}

TEST(StopText, DoesNotDependOnThePieces) {
  std::mt19937 random(3);
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](size_t least, size_t most) {
      std::string s(least + random() % (most - least + 1), 'a');
      for (char& c : s) c = static_cast<char>('a' + random() % 3);
      return s;
    };
    std::vector<std::string> strings(1 + random() % 3);
    for (std::string& s : strings) s = word(1, 6);
    const std::string text = word(0, 40);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min<size_t>(text.size() - at, 1 + random() % 5);
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    const Result expected = Slow(strings, text);
    found += expected.found.has_value();
    ASSERT_EQ(Stopped(strings, pieces), expected) << text;
  }
  EXPECT_GT(found, 300);
  EXPECT_LT(found, 2900);
}

}  // namespace
}  // namespace mnemon
