// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_order.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/requests/random_facts.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Sorted(const std::string& order_by,
                                std::vector<SessionFacts> sessions) {
  const auto order = SessionOrder::Parse(order_by);
  EXPECT_TRUE(order.ok()) << order.status();
  std::sort(sessions.begin(), sessions.end(), [&](const auto& a, const auto& b) {
    return order->Before(order->PlaceOf(a), order->PlaceOf(b));
  });
  std::vector<std::string> ids;
  for (const SessionFacts& facts : sessions) ids.push_back(facts.id);
  return ids;
}

TEST(SessionOrder, OrdersByFieldsThenByName) {
  std::vector<SessionFacts> three(3);
  three[0] = {.id = "c", .model = "x", .state = SessionState::kRunning, .position = 10};
  three[0].expire_time = SecondsAfter1970(5);
  three[1] = {.id = "a", .model = "x", .state = SessionState::kIdle, .position = 9};
  three[2] = {.id = "b", .model = "w", .state = SessionState::kIdle, .position = 10};
  three[2].expire_time = SecondsAfter1970(4);
  EXPECT_THAT(Sorted("", three), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Sorted("name", three), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Sorted("name desc", three), ElementsAre("c", "b", "a"));
  EXPECT_THAT(Sorted("token_count", three), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Sorted("token_count desc", three), ElementsAre("b", "c", "a"));
  EXPECT_THAT(Sorted("token_count desc, name desc", three), ElementsAre("c", "b", "a"));
  EXPECT_THAT(Sorted("model", three), ElementsAre("b", "a", "c"));
  EXPECT_THAT(Sorted("state desc", three), ElementsAre("c", "a", "b"));
  EXPECT_THAT(Sorted("expire_time", three), ElementsAre("b", "c", "a"));
  EXPECT_THAT(Sorted("expire_time desc", three), ElementsAre("a", "c", "b"));
  EXPECT_THAT(Sorted(" model  desc ,token_count\tasc ", three),
              ElementsAre("a", "c", "b"));
}

TEST(SessionOrder, SaysWhatItMeans) {
  const auto text = [](const std::string& order_by) {
    return SessionOrder::Parse(order_by)->text();
  };
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text("name"), "");
  EXPECT_EQ(text("name, model desc"), "");
  EXPECT_EQ(text("name desc, model"), "name desc,");
  EXPECT_EQ(text("model asc,  name"), text(" model"));
  EXPECT_NE(text("model"), text("model desc"));
}

TEST(SessionOrder, ErrorsNameTheFault) {
  const struct {
    std::string text;
    const char* fault;
  } cases[] = {
      {"x", "no field 'x': the fields are name"},
      {"checkpoints", "no field 'checkpoints'"},
      {"tokencount", "did you mean token_count?"},
      {",", "expected a field"},
      {"name,", "expected a field"},
      {",name", "expected a field"},
      {"model,,name", "expected a field"},
      {"model down", "not 'down'"},
      {"model desc asc", "not 'asc'"},
      {"model DESC", "not 'DESC'"},
      {"-model", "no field '-model'"},
      {"model, state, model desc", "the field model stands there twice"},
      {"name, name", "twice"},
      {"model,state,tier,paused,rebuilt", "at most 4 fields"},
      {"model" + std::string(2000, ' '), "at most 1024 bytes"},
      {std::string("model\0", 6), "no field 'model\\x00'"},
  };
  for (const auto& c : cases) {
    const absl::Status status = SessionOrder::Parse(c.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).field, "order_by");
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.fault));
  }
  EXPECT_TRUE(SessionOrder::Parse("model,state,tier,paused").ok());
}

TEST(SessionOrder, HostileTexts) {
  const std::string_view parts[] = {"name", "model", ",",  " ",
                                    "desc", "asc",   "\t", "x"};
  std::mt19937 random(3);
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (size_t k = random() % 10; k > 0; --k) {
      text += random() % 8 ? std::string(parts[random() % std::size(parts)])
                           : std::string(1, static_cast<char>(random()));
    }
    const auto order = SessionOrder::Parse(text);
    if (order.ok()) {
      EXPECT_EQ(
          SessionOrder::Parse(
              order->text().substr(0, std::max<size_t>(1, order->text().size()) - 1))
              ->text(),
          order->text());
    }
  }
}

}  // namespace
}  // namespace mnemon
