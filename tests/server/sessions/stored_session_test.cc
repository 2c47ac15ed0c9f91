// SPDX-License-Identifier: MIT
#include "server/sessions/stored_session.h"

#include "base/error.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

std::chrono::system_clock::time_point At(int64_t ms) {
  return std::chrono::system_clock::time_point(milliseconds(ms));
}

StoredSession Full() {
  StoredSession session;
  session.model = "small";
  session.model_id = "0123";
  session.durability = Durability::kAlways;
  session.create_time = At(1000);
  session.last_use_time = At(2000);
  session.ttl = milliseconds(5000);
  session.sampling = SessionSampling{.values = {.top_k = 4}, .seed = 1ULL << 63};
  session.paused = session.rebuilt = session.drawn_id = true;
  session.epoch = 3;
  session.sequence = uint64_t{1} << 40;
  session.parent = "p";
  session.request_id = "r";
  session.request_text = "create 0";
  session.request_ids = {"a", "b"};
  session.newest_call = "{}";
  session.scored_from = 7;
  session.snapshots = {{.name = "s1", .tokens = 9, .computed = 8},
                       {.name = "s2", .tokens = 99}};
  session.checkpoints = {{.id = "c",
                          .request_id = "d",
                          .create_time = At(3000),
                          .snapshot = {.name = "cc", .tokens = 1}}};
  return session;
}

TEST(StoredSession, ComesBackAsItWas) {
  StoredSession fixed = Full();
  fixed.ttl.reset();
  fixed.expire_time = At(9000);
  StoredSession least;
  least.durability = Durability::kTurn;
  for (const StoredSession& session : {Full(), fixed, least}) {
    const auto parsed = ParseStoredSession(FormatStoredSession(session));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, session);
  }
}

TEST(StoredSession, ExpiresByItsLastUseOrItsTime) {
  StoredSession session;
  EXPECT_FALSE(session.expiry());
  session.last_use_time = At(2000);
  session.ttl = milliseconds(5000);
  EXPECT_EQ(session.expiry(), At(7000));
  session.ttl.reset();
  session.expire_time = At(9000);
  EXPECT_EQ(session.expiry(), At(9000));
}

TEST(StoredSession, DamageNamesTheKey) {
  const struct {
    const char* text;
    const char* key;
  } cases[] = {
      {"", "object"},
      {"[]", "object"},
      {R"({"durability":"ever"})", "durability"},
      {R"({"durability":"turn","model":7})", "model"},
      {R"({"durability":"turn","create_time":"x"})", "create_time"},
      {R"({"durability":"turn","paused":1})", "paused"},
      {R"({"durability":"turn","request_ids":[1]})", "request_ids"},
      {R"({"durability":"turn","request_ids":{}})", "request_ids"},
      {R"({"durability":"turn","snapshots":[{"name":1}]})", "name"},
      {R"({"durability":"turn","snapshots":[{"tokens":-1}]})", "tokens"},
      {R"({"durability":"turn","checkpoints":[{"id":"a"}]})", "checkpoint"},
      {R"({"durability":"turn","scored_from":1.5})", "scored_from"},
  };
  for (const auto& c : cases) {
    const absl::Status status = ParseStoredSession(c.text).status();
    EXPECT_EQ(ReasonOf(status), "RECORD_DAMAGED") << c.text;
    EXPECT_NE(status.message().find(c.key), std::string::npos) << status;
  }
}

TEST(StoredSession, ALaterFormatIsRefused) {
  const absl::Status status = ParseStoredSession(R"({"format":3})").status();
  EXPECT_EQ(ReasonOf(status), "STORE_FORMAT") << status;
}

TEST(StoredSession, EachByteThatIsCutOffIsDamageOrNoChange) {
  const std::string text = FormatStoredSession(Full());
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(ParseStoredSession(text.substr(0, length)).ok()) << length;
  }
}

}  // namespace
}  // namespace mnemon
