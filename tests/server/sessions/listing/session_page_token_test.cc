// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_pager.h"

#include <random>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/requests/random_facts.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOrders[] = {
    "", "name desc", "token_count, model desc", "expire_time desc",
    "state_size_bytes, last_use_time, numerics_id, parent"};

SessionOrder OrderOf(const std::string& text) { return *SessionOrder::Parse(text); }

void ExpectRefused(const absl::StatusOr<SessionOrder::Place>& place,
                   const char* fault) {
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(place.status()).value_or(ErrorDetail{}).field, "page_token");
  EXPECT_THAT(std::string(place.status().message()), HasSubstr(fault));
}

TEST(PageToken, GivesThePlaceBack) {
  std::mt19937 random(5);
  for (const char* text : kOrders) {
    const SessionOrder order = OrderOf(text);
    for (int i = 0; i < 100; ++i) {
      const auto place = order.PlaceOf(RandomFacts("s-1", random));
      const std::string token = PageToken(place, "tier = HOST", order);
      EXPECT_EQ(token.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
                                        "UVWXYZ0123456789-_"),
                token.npos)
          << token;
      const auto read = ParsePageToken(token, "tier = HOST", order);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->values, place.values);
      EXPECT_EQ(read->id, place.id);
    }
  }
}

TEST(PageToken, TheLongestIsTaken) {
  const SessionOrder order = OrderOf("model, parent, model_id, numerics_id");
  SessionOrder::Place place;
  const FieldValue longest = std::string(1024, 'x');
  place.values.assign(4, longest);
  place.id = std::string(63, 'a');
  EXPECT_TRUE(ParsePageToken(PageToken(place, "", order), "", order).ok());
}

TEST(PageToken, IsGoodForOneFilterAndOrder) {
  const std::string token = PageToken({.id = "a"}, "tier = HOST", OrderOf(""));
  EXPECT_TRUE(ParsePageToken(token, "tier = HOST", OrderOf("name")).ok());
  const char* other = "page_token was made for another filter or order_by";
  ExpectRefused(ParsePageToken(token, "", OrderOf("")), other);
  ExpectRefused(ParsePageToken(token, "tier = DISK", OrderOf("")), other);
  ExpectRefused(ParsePageToken(token, "tier = HOST", OrderOf("name desc")), other);
  ExpectRefused(ParsePageToken(token, "tier = HOST", OrderOf("model")), other);
}

TEST(PageToken, AnyChangeIsSeen) {
  const SessionOrder order = OrderOf("token_count, model");
  SessionFacts facts{.id = "abc", .model = "m"};
  const std::string token = PageToken(order.PlaceOf(facts), "", order);
  const char* fault = "not a page token";
  for (size_t i = 0; i < token.size(); ++i) {
    ExpectRefused(ParsePageToken(token.substr(0, i), "", order), fault);
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    ExpectRefused(ParsePageToken(changed, "", order), fault);
  }
  ExpectRefused(ParsePageToken(token + token, "", order), fault);
  for (const char* bad : {"x", "after.a", "AAAA", "====", "\n", "%41"}) {
    ExpectRefused(ParsePageToken(bad, "", order), fault);
  }
  ExpectRefused(ParsePageToken(std::string(1 << 20, 'A'), "", order), fault);
}

TEST(PageToken, HostileBytesWithARightChecksum) {
  std::mt19937 random(9);
  int good = 0;
  for (const char* text : kOrders) {
    const SessionOrder order = OrderOf(text);
    const SessionFacts facts = RandomFacts("abc", random);
    std::string whole;
    ASSERT_TRUE(absl::WebSafeBase64Unescape(PageToken(order.PlaceOf(facts), "", order),
                                            &whole));
    whole.resize(whole.size() - 16);
    for (int i = 0; i < 20'000; ++i) {
      // The hash of filter and order stays.
      std::string bytes = whole;
      for (size_t k = random() % 4; k > 0; --k) {
        bytes[16 + random() % (bytes.size() - 16)] = static_cast<char>(random());
      }
      if (random() % 2) bytes.resize(16 + random() % (bytes.size() - 15));
      for (size_t k = random() % 3; k > 0; --k) bytes += static_cast<char>(random());
      const std::string token =
          absl::WebSafeBase64Escape(StrCat(bytes, Sha256Hex(bytes).substr(0, 16)));
      const auto place = ParsePageToken(token, "", order);
      if (!place.ok()) continue;
      ++good;
      // Comparable with any place of the order.
      (void)order.Before(*place, order.PlaceOf(facts));
      EXPECT_EQ(place->values.size(), order.keys().size());
    }
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace mnemon
