// SPDX-License-Identifier: MIT
// The commands of a chat on its session, against a fake.
#include "client/chat/chat_sessions.h"

#include <deque>
#include <sstream>

#include "client/chat/chat.h"
#include "gmock/gmock.h"
#include "tests/client/fake_sessions.h"

namespace mnemon::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ChatSessionsTest : public ::testing::Test {
 protected:
  ChatSessionsTest() {
    fake_.Add("anna", 12);
    options_.session = "anna";
  }

  absl::Status Run(std::deque<std::string> lines) {
    note_.str("");
    const ChatPorts ports{.read_line = [&](bool) -> std::optional<std::string> {
                            if (lines.empty()) return std::nullopt;
                            std::string line = lines.front();
                            lines.pop_front();
                            return line;
                          },
                          .begin_answer = [] {},
                          .stop_answer = [] { return false; },
                          .stop_chat = [] { return false; },
                          .out = out_,
                          .note = note_};
    return RunChat(*client_, options_, ports);
  }
  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const auto& [id, session] : fake_.sessions) ids.push_back(id);
    return ids;
  }

  FakeSessions fake_;
  std::unique_ptr<Client> client_ = fake_.NewClient();
  ChatOptions options_;
  std::ostringstream out_;
  std::ostringstream note_;
};

TEST_F(ChatSessionsTest, ForkGoesOnInTheFork) {
  ASSERT_TRUE(Run({"/fork bert", "/rewind 5", "/show"}).ok());
  EXPECT_EQ(fake_.forked.name(), "sessions/anna");
  EXPECT_EQ(fake_.forked.session().ttl().seconds(), 86400);
  EXPECT_EQ(fake_.sessions["anna"].token_count(), 12);
  EXPECT_EQ(fake_.sessions["bert"].token_count(), 5);
  EXPECT_THAT(note_.str(), HasSubstr("now in session bert, a copy with 12 tokens\n"));
  EXPECT_THAT(note_.str(), HasSubstr("session     bert\n"));
  EXPECT_THAT(Ids(), ElementsAre("anna", "bert"));
}

TEST_F(ChatSessionsTest, ForksWithoutANameGoAtTheEnd) {
  options_.ttl = std::chrono::seconds(60);
  ASSERT_TRUE(Run({"/fork", "/fork", "/fork bert", "/fork"}).ok());
  EXPECT_EQ(fake_.forked.session().ttl().seconds(), 60);
  EXPECT_THAT(note_.str(),
              HasSubstr("drawn-1, a copy with 12 tokens, deleted at the end"));
  EXPECT_THAT(Ids(), ElementsAre("anna", "bert"));
  options_.keep = true;
  ASSERT_TRUE(Run({"/fork"}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("kept session drawn-4\n"));
  EXPECT_THAT(Ids(), ElementsAre("anna", "bert", "drawn-4"));
}

TEST_F(ChatSessionsTest, AChatWithoutANameHasTheCommandsToo) {
  options_.session.clear();
  ASSERT_TRUE(Run({"/save", "/fork", "/clear", "/fork bert", "/clear"}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("saved drawn at 0 tokens\n"));
  EXPECT_THAT(Ids(), ElementsAre("anna", "bert"));
}

TEST_F(ChatSessionsTest, RewindTakesTokensOrACheckpoint) {
  ASSERT_TRUE(Run({"/save 7", "/rewind -2", "/rewind 9", "/rewind 7"}).ok());
  EXPECT_EQ(note_.str(),
            "saved 7 at 12 tokens\nthe session has 10 tokens\nthe session has 9 "
            "tokens\nthe session has 7 tokens\n");
  fake_.sessions["anna"].set_token_count(20);
  ASSERT_TRUE(Run({"/rewind -3"}).ok());
  EXPECT_EQ(fake_.rewound.token_count(), 17);
  EXPECT_EQ(fake_.rewound.etag(), "e1");
  ASSERT_TRUE(Run({"/load 7"}).ok());
  EXPECT_EQ(fake_.rewound.checkpoint_id(), "7");
  EXPECT_EQ(note_.str(), "the session has 12 tokens\n");
  ASSERT_TRUE(Run({"/save early", "/rewind early"}).ok());
  EXPECT_EQ(fake_.rewound.checkpoint_id(), "early");
}

TEST_F(ChatSessionsTest, MistakesAreToldAndTheChatGoesOn) {
  options_.terminal = true;
  ASSERT_TRUE(Run({"/rewind", "/rewind 1 2", "/rewind -13", "/rewind 13",
                   "/rewind 99999999999999999999", "/load", "/fork a b", "/save a b",
                   "/verify all", "/sessions now", "/fork anna", "/rewind -0"})
                  .ok());
  for (const char* part :
       {"use /rewind N, /rewind -N or /rewind CHECKPOINT\n",
        "the session has only 12 tokens, not 13\n", "cannot go on to 13 tokens",
        "is not a number of tokens", "use /load CHECKPOINT\n", "use /fork [NAME]\n",
        "use /save [CHECKPOINT]\n", "use /verify [replay]\n", "use /sessions\n",
        "sessions/anna exists (ALREADY_EXISTS)", "the session has 12 tokens\n"}) {
    EXPECT_THAT(note_.str(), HasSubstr(part));
  }
  EXPECT_THAT(Ids(), ElementsAre("anna"));
}

TEST_F(ChatSessionsTest, VerifyTellsWhatDiffers) {
  fake_.verification.set_stored_form_valid(true);
  fake_.verification.set_token_count(12);
  ASSERT_TRUE(Run({"/verify"}).ok());
  EXPECT_FALSE(fake_.replayed);
  EXPECT_THAT(note_.str(),
              HasSubstr("stored form       valid\ntokens            12\n"));
  fake_.verification.set_replay_equal(false);
  fake_.verification.set_first_difference("memory");
  const absl::Status status = Run({"/verify replay"});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(fake_.replayed);
  EXPECT_THAT(note_.str(), HasSubstr("the first difference is in 'memory'\n"));
}

TEST_F(ChatSessionsTest, SessionsAreListedAndCommandsHelped) {
  ASSERT_TRUE(Run({"/sessions", "/help"}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("\nanna  small  IDLE "));
  for (const char* command :
       {"/fork", "/rewind", "/save", "/load", "/verify", "/sessions"}) {
    EXPECT_THAT(note_.str(), HasSubstr(std::string("\n") + command));
  }
}

}  // namespace
}  // namespace mnemon::client
