// SPDX-License-Identifier: MIT
// Paging through directories that are no more than maps from ids to facts.
#include "server/sessions/listing/session_pager.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/requests/random_facts.h"

namespace mnemon {
namespace {

using Directory = std::map<std::string, SessionFacts>;

SessionPage List(const Directory& directory, const ListSessionsRequest& request) {
  auto pager = SessionPager::Parse(request);
  EXPECT_TRUE(pager.ok()) << pager.status();
  if (!pager.ok()) return {};
  auto next = directory.lower_bound(pager->ids().begin);
  for (; next != directory.end() && !pager->complete(); ++next) {
    pager->Add(next->second);
  }
  return pager->Take();
}

Directory RandomDirectory(int size, std::mt19937& random) {
  Directory directory;
  while (static_cast<int>(directory.size()) < size) {
    const std::string id = StrCat("s", random() % 100'000);
    directory[id] = RandomFacts(id, random);
  }
  return directory;
}

constexpr const char* kPagerOrders[] = {"",
                                        "name",
                                        "name desc",
                                        "last_use_time desc",
                                        "expire_time",
                                        "expire_time desc, model",
                                        "state, token_count desc, paused",
                                        "parent desc, numerics_id, tier, durability"};

TEST(SessionPager, EachSessionOnceInItsOrder) {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    const Directory directory =
        RandomDirectory(static_cast<int>(random() % 60), random);
    ListSessionsRequest request;
    request.order_by = kPagerOrders[random() % std::size(kPagerOrders)];
    if (random() % 2) request.filter = "token_count > 1 OR expire_time:*";
    const auto order = *SessionOrder::Parse(request.order_by);
    std::vector<SessionFacts> expected;
    for (const auto& [id, facts] : directory) {
      const bool wanted = facts.position > 1 || facts.expire_time;
      if (request.filter.empty() || wanted) expected.push_back(facts);
    }
    std::sort(expected.begin(), expected.end(), [&](const auto& a, const auto& b) {
      return order.Before(order.PlaceOf(a), order.PlaceOf(b));
    });
    std::vector<SessionFacts> seen;
    do {
      request.page_size = 1 + static_cast<int32_t>(random() % 20);
      SessionPage page = List(directory, request);
      EXPECT_LE(page.sessions.size(), static_cast<size_t>(request.page_size));
      // Only an empty list has an empty page.
      EXPECT_EQ(page.sessions.empty(), expected.empty());
      for (SessionFacts& facts : page.sessions) seen.push_back(std::move(facts));
      request.page_token = page.next_page_token;
      ASSERT_LE(seen.size(), expected.size());
    } while (!request.page_token.empty());
    ASSERT_EQ(seen.size(), expected.size());
    for (size_t k = 0; k < seen.size(); ++k) EXPECT_EQ(seen[k].id, expected[k].id);
  }
}

TEST(SessionPager, SessionsThatComeAndGoMoveNoOthers) {
  std::mt19937 random(13);
  for (int i = 0; i < 200; ++i) {
    Directory directory = RandomDirectory(50, random);
    std::set<std::string> staying;
    for (const auto& [id, facts] : directory) staying.insert(id);
    ListSessionsRequest request;
    request.order_by = kPagerOrders[random() % std::size(kPagerOrders)];
    std::multiset<std::string> seen;
    do {
      request.page_size = 1 + static_cast<int32_t>(random() % 10);
      const SessionPage page = List(directory, request);
      for (const SessionFacts& facts : page.sessions) seen.insert(facts.id);
      request.page_token = page.next_page_token;
      // The last entry of the page among them, now and then.
      for (int k = 0; k < 3; ++k) {
        auto gone = std::next(directory.begin(), random() % directory.size());
        // Nothing may be left after the last page, so that this one is empty.
        if (k == 0 && !page.sessions.empty()) {
          gone = directory.find(page.sessions.back().id);
        }
        if (gone == directory.end() || directory.size() == 1 || random() % 2) continue;
        staying.erase(gone->first);
        directory.erase(gone);
      }
      const std::string made = StrCat("s", random() % 100'000);
      if (!seen.contains(made)) directory[made] = RandomFacts(made, random);
    } while (!request.page_token.empty() && seen.size() < 1000);
    ASSERT_LT(seen.size(), 1000u);
    for (const std::string& id : staying) EXPECT_EQ(seen.count(id), 1u) << id;
    for (const std::string& id : seen) EXPECT_EQ(seen.count(id), 1u) << id;
  }
}

TEST(SessionPager, TheLastEntryIsNotRepeatedWhenItMoves) {
  Directory directory;
  for (const char* id : {"a", "b", "c"}) {
    directory[id] = {.id = id, .position = id[0] - 'a'};
  }
  ListSessionsRequest request{.page_size = 2, .order_by = "token_count"};
  request.page_token = List(directory, request).next_page_token;
  directory["b"].position = 7;
  const SessionPage page = List(directory, request);
  ASSERT_EQ(page.sessions.size(), 1u);
  EXPECT_EQ(page.sessions[0].id, "c");
}

TEST(SessionPager, StopsWhenAPageByNameIsFull) {
  auto pager = *SessionPager::Parse({.page_size = 2, .filter = "paused = false"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(pager.complete());
    pager.Add({.id = StrCat("a", i), .paused = true});
    pager.Add({.id = StrCat("b", i)});
  }
  EXPECT_TRUE(pager.complete());
  const SessionPage page = pager.Take();
  EXPECT_EQ(page.sessions.size(), 2u);
  EXPECT_FALSE(page.next_page_token.empty());
}

TEST(SessionPager, PageSizes) {
  const auto size = [](int32_t asked) {
    return SessionPager::Parse({.page_size = asked})->page_size();
  };
  EXPECT_EQ(size(0), 100u);
  EXPECT_EQ(size(1), 1u);
  EXPECT_EQ(size(1000), 1000u);
  EXPECT_EQ(size(1001), 1000u);
  EXPECT_EQ(size(INT32_MAX), 1000u);
  for (const int32_t bad : {-1, INT32_MIN}) {
    const absl::Status status = SessionPager::Parse({.page_size = bad}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).field, "page_size");
  }
}

TEST(SessionPager, ErrorsNameTheField) {
  const auto field = [](const ListSessionsRequest& request) {
    return GetErrorDetail(SessionPager::Parse(request).status())
        .value_or(ErrorDetail{})
        .field;
  };
  EXPECT_EQ(field({.filter = "x"}), "filter");
  EXPECT_EQ(field({.order_by = "x"}), "order_by");
  EXPECT_EQ(field({.page_token = "x"}), "page_token");
}

}  // namespace
}  // namespace mnemon
