// SPDX-License-Identifier: MIT
#include "server/durability/journal_entry.h"

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;

TEST(JournalEntry, ComesBackAsItWas) {
  for (const std::vector<int32_t>& tokens :
       {std::vector<int32_t>{}, {7}, {1, 2, 2147483647}}) {
    const std::string bytes = FormatJournalEntry(5, tokens);
    const auto entry = ParseJournalEntry(bytes);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(*entry, (JournalEntry{.kept = 5, .tokens = tokens}));
  }
}

TEST(JournalEntry, IsRefusedAtEachOtherLength) {
  const std::string bytes = FormatJournalEntry(5, std::vector<int32_t>{1, 2});
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto entry = ParseJournalEntry(bytes.substr(0, length));
    if (length >= 8 && length % 4 == 0) {
      EXPECT_TRUE(entry.ok()) << length;  // an entry with fewer tokens
    } else {
      EXPECT_EQ(ReasonOf(entry.status()), "JOURNAL_DAMAGED") << length;
    }
  }
}

TEST(JournalEntry, NegativeNumbersAreDamage) {
  EXPECT_EQ(ReasonOf(ParseJournalEntry(FormatJournalEntry(-1, {})).status()),
            "JOURNAL_DAMAGED");
  const std::vector<int32_t> negative = {1, -2};
  EXPECT_EQ(ReasonOf(ParseJournalEntry(FormatJournalEntry(0, negative)).status()),
            "JOURNAL_DAMAGED");
}

TEST(JournalEntry, MayBeAppliedTwice) {
  const JournalEntry entry{.kept = 2, .tokens = {8, 9}};
  std::vector<int32_t> tokens = {1, 2, 3};
  ASSERT_TRUE(ApplyJournalEntry(entry, tokens).ok());
  ASSERT_TRUE(ApplyJournalEntry(entry, tokens).ok());
  EXPECT_THAT(tokens, ElementsAre(1, 2, 8, 9));
}

TEST(JournalEntry, OfALongerHistoryChangesNothing) {
  std::vector<int32_t> tokens = {1, 2, 3};
  EXPECT_EQ(ReasonOf(ApplyJournalEntry({.kept = 4, .tokens = {5}}, tokens)),
            "JOURNAL_DAMAGED");
  EXPECT_THAT(tokens, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace mnemon
