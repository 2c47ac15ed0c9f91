// SPDX-License-Identifier: MIT
// The ttl that the client and its commands send for new sessions.
#include "client/session_messages.h"
#include "gmock/gmock.h"
#include "tests/client/commands/run_command.h"
#include "tests/server/rpc/rig.h"

namespace mnemon::client {
namespace {

using ::testing::Optional;

TEST(Ttl, IsADayUnlessGiven) {
  EXPECT_EQ(ToMessage(CreateSessionOptions{}).session().ttl().seconds(), 86400);
  const auto given =
      ToMessage(CreateSessionOptions{.ttl = std::chrono::milliseconds(90500)});
  EXPECT_EQ(given.session().ttl().seconds(), 90);
  EXPECT_EQ(given.session().ttl().nanos(), 500000000);
  EXPECT_FALSE(
      ToMessage(CreateSessionOptions{.ttl = std::nullopt}).session().has_ttl());
}

// Seconds from the creation of session `id` to its end; nullopt: it is kept.
std::optional<int64_t> LifeOf(const Rig& rig, const std::string& id) {
  BoundedContext context;
  v1::GetSessionRequest request;
  request.set_name("sessions/" + id);
  v1::Session session;
  EXPECT_TRUE(rig.sessions->GetSession(&context, request, &session).ok());
  if (!session.has_expire_time()) return std::nullopt;
  return session.expire_time().seconds() - session.create_time().seconds();
}

TEST(Ttl, CreateSessionByNameSetsADay) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("anna", "").ok());
  EXPECT_THAT(LifeOf(rig, "anna"), Optional(86400));
}

TEST(Ttl, SessionsCreateSetsADayUnlessGiven) {
  Rig rig;
  const auto create = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"sessions", "create"});
    EXPECT_EQ(ExitCode(rig.address(), std::move(words)), 0);
  };
  create({"day"});
  create({"week", "--ttl", "604800"});
  create({"kept", "--ttl", "0"});
  EXPECT_THAT(LifeOf(rig, "day"), Optional(86400));
  EXPECT_THAT(LifeOf(rig, "week"), Optional(604800));
  EXPECT_EQ(LifeOf(rig, "kept"), std::nullopt);
}

}  // namespace
}  // namespace mnemon::client
