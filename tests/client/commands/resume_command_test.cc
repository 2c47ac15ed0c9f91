// SPDX-License-Identifier: MIT
// Commands whose streams are lost, against a fake.
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <sstream>

#include "client/chat/call_file.h"
#include "client/chat/chat.h"
#include "client/request_id.h"
#include "gmock/gmock.h"
#include "tests/client/commands/run_command.h"
#include "tests/client/fake_generation.h"
#include "tests/client/fake_sessions.h"

namespace mnemon::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using Act = FakeGeneration::Act;

const grpc::Status kFailure(grpc::INTERNAL, "the model broke");

Ran Generate(const FakeGeneration& fake, std::vector<std::string> words) {
  words.insert(words.begin(), {"generate", "--session", "anna"});
  return RunCommand(fake.address(), std::move(words));
}

TEST(ResumeCommand, ALostStreamIsPrintedOnce) {
  FakeGeneration fake;
  fake.Script({{.tokens = 2}, {.tokens = 1}});
  Ran ran = Generate(fake, {"--prompt", "abc"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, FakeGeneration::Text());
  EXPECT_EQ(ran.err, "mnemon: resumed after token 9\nmnemon: resumed after token 10\n");
  fake.Script({{}});
  ran = Generate(fake, {"--prompt", "abc", "--ids"});
  EXPECT_EQ(ran.out, "108,109,110,111,112,113\n");
  EXPECT_EQ(ran.err, "mnemon: resumed before the first token\n");
}

TEST(ResumeCommand, WhatIsNotTakenUpTellsHowTo) {
  FakeGeneration fake;
  const std::string id = NewRequestId();
  fake.Script(
      {{.tokens = 2,
        .status = Typed(grpc::UNAVAILABLE, "DRAINING", std::chrono::seconds(90))}});
  Ran ran = Generate(fake, {"--prompt", "abc", "--request-id", id});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "8,9,");
  const std::string rest =
      StrCat("--session anna --request-id ", id, " --resume-after 9");
  EXPECT_THAT(ran.err, HasSubstr("mnemon generate " + rest + "\n"));
  ran = Generate(fake, {"--request-id", id, "--resume-after", "9"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "10,11,12,13,");
  ran = Generate(fake, {"--request-id", id, "--resume-after", "-1"});
  EXPECT_EQ(ran.out, FakeGeneration::Text()) << ran.err;
}

TEST(ResumeCommand, NoResumeMakesTheCallOnce) {
  FakeGeneration fake;
  fake.Script({{.tokens = 2}});
  const Ran ran = Generate(fake, {"--prompt", "abc", "--no-resume"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, Not(HasSubstr("--resume-after")));
  ASSERT_THAT(fake.requests(), SizeIs(1));
  EXPECT_EQ(fake.requests()[0].request_id(), "");
  Generate(fake, {"--prompt", "abc", "--on-disconnect", "continue"});
  EXPECT_EQ(fake.requests()[1].on_disconnect(), v1::CONTINUE);
}

TEST(ResumeCommand, AnAbsentSessionPrintsNothing) {
  FakeGeneration fake;
  for (const char* form : {"--ids", "--stats"}) {
    fake.Script({{.status = Typed(grpc::NOT_FOUND, "SESSION_NOT_FOUND"),
                  .first_message = false}});
    const Ran ran = Generate(fake, {"--prompt", "abc", form});
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr("SESSION_NOT_FOUND"));
  }
  fake.Script({{.tokens = 1, .status = kFailure}});
  EXPECT_EQ(Generate(fake, {"--prompt", "abc", "--ids"}).out, "108\n");
}

TEST(ResumeCommand, FlagsThatDoNotFitAreRefused) {
  const std::vector<std::string> cases[] = {
      {"generate", "--prompt", "a", "--on-disconnect", "continue"},
      {"generate", "--session", "anna", "--resume-after", "3"},
      {"generate", "--request-id", "x", "--resume-after", "3"},
      {"generate", "--session", "anna", "--request-id", "x", "--resume-after", "3",
       "--prompt", "a"}};
  for (const std::vector<std::string>& words : cases) {
    const Ran ran = RunCommand("127.0.0.1:1", words);
    EXPECT_EQ(ran.code, 2) << ran.err;
  }
}

class ResumeChatTest : public ::testing::Test {
 protected:
  ResumeChatTest() {
    sessions_.Add("anna", 12);
    options_.session = "anna";
  }

  absl::Status Run(std::deque<std::string> lines) {
    out_.str("");
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
                          .note = note_,
                          .remember = [&](const std::string&,
                                          const std::string& id) { remembered_ = id; },
                          .recall = [&](const std::string&) { return remembered_; }};
    return RunChat(*client_, options_, ports);
  }

  FakeSessions sessions_;
  FakeGeneration fake_{&sessions_};
  std::unique_ptr<Client> client_ = Client::Connect({.server = fake_.address()});
  ChatOptions options_;
  std::string remembered_;
  std::ostringstream out_;
  std::ostringstream note_;
};

TEST_F(ResumeChatTest, ALostAnswerIsPrintedOnce) {
  fake_.Script({{.tokens = 4}});
  ASSERT_TRUE(Run({"abc"}).ok());
  EXPECT_EQ(out_.str(), FakeGeneration::Text() + "\n");
  EXPECT_EQ(note_.str(), "mnemon: resumed after token 11\n");
}

TEST_F(ResumeChatTest, AnAnswerThatWasCutOffGoesOn) {
  options_.terminal = true;
  fake_.Script({{.tokens = 2, .status = kFailure}, {.tokens = 1, .status = kFailure}});
  ASSERT_TRUE(Run({"/resume", "abc", "/resume", "/resume", "/resume"}).ok());
  EXPECT_EQ(out_.str(), "8,9,\n10,\n11,12,13,\n");
  EXPECT_THAT(note_.str(), HasSubstr("no unfinished answer in this chat"));
  const auto requests = fake_.requests();
  ASSERT_THAT(requests, SizeIs(3));
  EXPECT_EQ(requests[2].request_id(), requests[0].request_id());
  EXPECT_EQ(requests[2].resume_after_index(), 10);
  EXPECT_FALSE(requests[2].has_prompt());
}

TEST_F(ResumeChatTest, AChatTakesOverWhatAnotherOneLeft) {
  fake_.Script({{.tokens = 2, .status = kFailure}});
  EXPECT_FALSE(Run({"abc"}).ok());
  sessions_.sessions["anna"].set_state(v1::Session::DETACHED);
  ASSERT_TRUE(Run({"/resume"}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("is unfinished: /resume continues it"));
  EXPECT_EQ(out_.str(), FakeGeneration::Text() + "\n");
  EXPECT_EQ(fake_.requests()[1].resume_after_index(), -1);
  const std::string id = std::exchange(remembered_, "");
  ASSERT_TRUE(Run({"/resume " + id}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("/resume ID, with its request id, continues it"));
  EXPECT_EQ(out_.str(), FakeGeneration::Text() + "\n");
  // What goes on otherwise ends it.
  ASSERT_FALSE(Run({"/rewind 3", "/resume"}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("no unfinished answer in this chat"));
}

TEST(CallFiles, KeepTheNewestCallOfASession) {
  const std::string folder =
      StrCat(testing::TempDir(), "mnemon-calls-", getpid(), "/calls");
  const CallFiles files(folder, "a:1");
  EXPECT_EQ(files.Recall("anna"), "");
  const std::string id = NewRequestId();
  files.Remember("anna", NewRequestId());
  files.Remember("anna", id);
  EXPECT_EQ(files.Recall("anna"), id);
  EXPECT_EQ(CallFiles(folder, "a:2").Recall("anna"), "");
  // More sessions than files: never another one's id.
  for (int i = 0; i < 600; ++i) {
    const std::string session = StrCat("s", i);
    EXPECT_EQ(files.Recall(session), "");
    files.Remember(session, id);
  }
  EXPECT_LE(std::distance(std::filesystem::directory_iterator(folder), {}), 256);
  std::filesystem::remove_all(std::filesystem::path(folder).parent_path());
  CallFiles("", "a:1").Remember("anna", id);
  EXPECT_EQ(CallFiles("", "a:1").Recall("anna"), "");
}

}  // namespace
}  // namespace mnemon::client
