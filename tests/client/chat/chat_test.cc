// SPDX-License-Identifier: MIT
#include "client/chat/chat.h"

#include <algorithm>
#include <deque>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/process/command_line.h"
#include "client/chat/chat_settings.h"
#include "client/terminal/sampling_flags.h"
#include "gmock/gmock.h"
#include "tests/server/rpc/rig.h"

namespace mnemon::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A chat over a toy server, fed with lines.
class ChatTest : public ::testing::Test {
 protected:
  explicit ChatTest(const RigOptions& options = {}) : rig_(options) {}

  absl::Status Run(std::deque<std::string> lines) {
    options_.generate.sampling.temperature = 0.0;
    if (!options_.generate.stopping.max_tokens)
      options_.generate.stopping.max_tokens = 6;
    const ChatPorts ports{.read_line = [&](bool) -> std::optional<std::string> {
                            if (before_line_) before_line_();
                            if (lines.empty()) return std::nullopt;
                            std::string line = lines.front();
                            lines.pop_front();
                            return line;
                          },
                          .begin_answer = [&] { ++answers_; },
                          .stop_answer = [&] { return stop_answer_; },
                          .stop_chat = [&] { return stop_chat_; },
                          .out = out_,
                          .note = note_};
    return RunChat(*rig_.client, options_, ports);
  }

  std::string Expected(const std::string& text, int64_t count) {
    std::vector<int32_t> history = *rig_.tokenizer->Encode(text);
    return *rig_.tokenizer->Decode(
        ToyContinuation(ToyState::kFixedAndAppend, history, count, {.temperature = 0}));
  }

  Rig rig_;
  ChatOptions options_;
  std::function<void()> before_line_;
  bool stop_answer_ = false;
  bool stop_chat_ = false;
  int answers_ = 0;
  std::ostringstream out_;
  std::ostringstream note_;
};

TEST_F(ChatTest, RemembersAndCleansUp) {
  ASSERT_TRUE(Run({"abc", "", "de"}).ok());
  const std::string first = Expected("abc", 6);
  EXPECT_EQ(out_.str(), first + "\n" + Expected("abc" + first + "de", 6) + "\n");
  EXPECT_THAT(*rig_.client->ListSessions(), SizeIs(0));
}

TEST_F(ChatTest, ClearForgets) {
  ASSERT_TRUE(Run({"abc", "/clear", "abc"}).ok());
  EXPECT_EQ(out_.str(), Expected("abc", 6) + "\n" + Expected("abc", 6) + "\n");
  EXPECT_THAT(*rig_.client->ListSessions(), SizeIs(0));
}

class TemplateChatTest : public ChatTest {
 protected:
  TemplateChatTest()
      : ChatTest({.chat_program =
                      "{% for m in messages %}{{ m.role | replace('user', 'q') | first "
                      "}} {{ m.content }}.\n{% endfor %}{% if add_generation_prompt "
                      "%}a {% endif %}"}) {}
};

TEST_F(TemplateChatTest, LinesAreMessages) {
  options_.system = "be";
  ASSERT_TRUE(Run({"hi", "and", "/clear", "so"}).ok());
  const std::string first = Expected("s be.\nq hi.\na ", 6);
  EXPECT_EQ(out_.str(), first + "\n" +
                            Expected("s be.\nq hi.\na " + first + ".\nq and.\na ", 6) +
                            "\n" + Expected("s be.\nq so.\na ", 6) + "\n");
}

TEST_F(TemplateChatTest, ContinueBeginsWithTheLastMessages) {
  ASSERT_TRUE(Run({"hi", "/continue", "and", "so"}).ok());
  const std::string first = Expected("q hi.\na ", 6);
  const std::string begin = "q hi.\na " + first + ".\nq and.\na ";
  const std::string second = Expected(begin, 6);
  EXPECT_EQ(out_.str(), first + "\n" + second + "\n" +
                            Expected(begin + second + ".\nq so.\na ", 6) + "\n");
  EXPECT_THAT(note_.str(), HasSubstr("the last 2 messages"));
}

TEST_F(ChatTest, AMessageOfTheSystemNeedsATemplate) {
  options_.system = "be";
  EXPECT_THAT(std::string(Run({"hi"}).message()), HasSubstr("--system"));
}

class CrowdedChatTest : public ChatTest {
 protected:
  CrowdedChatTest() : ChatTest({.engine = {.sessions = 4}}) {}
};

TEST_F(CrowdedChatTest, ClearThatFailsLosesNothing) {
  before_line_ = [&] {
    while (rig_.client->CreateSession({}).ok()) {
    }
  };
  EXPECT_FALSE(Run({"abc", "/clear", "de"}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("SESSION_LIMIT"));
  const std::string first = Expected("abc", 6);
  EXPECT_EQ(out_.str(), first + "\n" + Expected("abc" + first + "de", 6) + "\n");
}

TEST_F(ChatTest, NamedSessionIsCreatedKeptAndContinued) {
  options_.session = "anna";
  ASSERT_TRUE(Run({"abc"}).ok());
  EXPECT_EQ(rig_.client->GetSession("anna")->position, 9);
  ASSERT_TRUE(Run({"de", "/bye", "never"}).ok());
  EXPECT_EQ(rig_.client->GetSession("anna")->position, 17);
}

TEST_F(ChatTest, KeepKeeps) {
  options_.keep = true;
  ASSERT_TRUE(Run({"abc"}).ok());
  auto sessions = rig_.client->ListSessions();
  ASSERT_THAT(*sessions, SizeIs(1));
  EXPECT_THAT(note_.str(), HasSubstr((*sessions)[0].id));
}

TEST_F(ChatTest, SessionsExpireUnusedForTheTtl) {
  using std::chrono::system_clock;
  options_.session = "anna";
  options_.ttl = std::chrono::hours(3);
  const auto expiry_is_right = [&](system_clock::time_point begin) {
    const auto expiry = rig_.client->GetSession("anna")->expire_time;
    return expiry && *expiry >= begin + *options_.ttl - std::chrono::seconds(1) &&
           *expiry <= system_clock::now() + *options_.ttl + std::chrono::seconds(1);
  };
  const system_clock::time_point begin = system_clock::now();
  ASSERT_TRUE(Run({"abc"}).ok());
  EXPECT_TRUE(expiry_is_right(begin));
  ASSERT_TRUE(Run({"/clear"}).ok());
  EXPECT_TRUE(expiry_is_right(begin));
}

TEST_F(ChatTest, WithoutATtlTheServerDecides) {
  options_.session = "anna";
  options_.ttl = std::nullopt;
  ASSERT_TRUE(Run({"abc"}).ok());
  EXPECT_FALSE(rig_.client->GetSession("anna")->expire_time);
}

TEST_F(ChatTest, SeveralLinesAreOneText) {
  ASSERT_TRUE(Run({"\"\"\"ab", "/bye", "c\"\"\""}).code() !=
              absl::StatusCode::kOk);  // '/' is unknown to the tokenizer
  EXPECT_THAT(note_.str(), HasSubstr("prompt.text"));
  out_.str("");
  ASSERT_TRUE(Run({"\"\"\"ab", "c\"\"\""}).ok());
  EXPECT_EQ(out_.str(), Expected("ab\nc", 6) + "\n");
}

TEST_F(ChatTest, SettingsAreUsedAndShown) {
  ASSERT_TRUE(Run({"/set max_tokens 3", "abc", "/show", "/help"}).ok());
  EXPECT_EQ(out_.str(), Expected("abc", 3) + "\n");
  EXPECT_THAT(note_.str(), ContainsRegex("max_tokens +3\n"));
  EXPECT_THAT(note_.str(), ContainsRegex("\ntokens +6\n"));
  EXPECT_THAT(note_.str(), HasSubstr("/clear"));
}

TEST_F(ChatTest, MistakesAreReportedAndTheChatGoesOn) {
  options_.terminal = true;
  ASSERT_TRUE(Run({"/nonsense", "/set", "/set top_k x", "/set tempreature 1", "A%",
                   "/set top_p 7", "abc", "/set top_p -", "abc"})
                  .ok());
  EXPECT_THAT(note_.str(), HasSubstr("unknown command '/nonsense'"));
  EXPECT_THAT(note_.str(), HasSubstr("did you mean temperature?"));
  EXPECT_THAT(note_.str(), HasSubstr("top_k: 'x' is not a number"));
  EXPECT_THAT(note_.str(), HasSubstr("UNKNOWN_CHARACTER"));
  EXPECT_THAT(note_.str(), HasSubstr("field sampling.top_p"));
  EXPECT_THAT(out_.str(), HasSubstr(Expected("abc", 6)));
}

TEST_F(ChatTest, WithoutATerminalTheFirstMistakeIsTheResult) {
  const absl::Status status = Run({"abc", "A", "abc", "/set nothing 1"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("UNKNOWN_CHARACTER"));
  EXPECT_EQ(answers_, 3);
  EXPECT_THAT(*rig_.client->ListSessions(), SizeIs(0));
}

TEST_F(ChatTest, StoppingAnAnswerKeepsTheChat) {
  stop_answer_ = true;
  options_.generate.stopping.max_tokens = 900;
  ASSERT_TRUE(Run({"abc", "/show"}).ok());
  EXPECT_EQ(out_.str(), "\n");
  EXPECT_THAT(note_.str(), HasSubstr("session "));
}

TEST_F(ChatTest, EndsWhenTerminated) {
  before_line_ = [&] { stop_chat_ = true; };
  ASSERT_TRUE(Run({"abc", "abc", "abc"}).ok());
  EXPECT_EQ(answers_, 1);
  EXPECT_THAT(*rig_.client->ListSessions(), SizeIs(0));
}

TEST_F(ChatTest, EndsWhenTheServerIsGone) {
  before_line_ = [&] { rig_.server->Shutdown(std::chrono::milliseconds(0)); };
  const absl::Status status = Run({"abc", "abc", "abc"});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(answers_, 1);
}

TEST_F(ChatTest, AnErrorIsToldOnce) {
  const absl::Status status = Run({"/nonsense"});
  EXPECT_THAT(note_.str(), HasSubstr("unknown command '/nonsense'"));
  // Its log may come after its answers.
  rig_.server.reset();
  ASSERT_TRUE(FlushLog());
  CommandLine line("mnemon", "", {}, "");
  line.SetBody([&] { return status; });
  char name[] = "mnemon";
  char* arguments[] = {name};
  testing::internal::CaptureStderr();
  EXPECT_EQ(line.Run(1, arguments), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Chats with a model whose context has 48 tokens.
class FullChatTest : public ChatTest {
 protected:
  FullChatTest() : ChatTest({.append_capacity = 48}) {
    options_.terminal = true;
    options_.generate.stopping.max_tokens = 100;
  }
};

TEST_F(FullChatTest, TheContextLimitIsToldWithTheWaysOut) {
  ASSERT_TRUE(Run({"abc", "de"}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("the context of 48 tokens is full (0 before, "
                                     "prompt 3, generated 46); /clear begins"));
  EXPECT_THAT(note_.str(), HasSubstr("a history of 49 tokens and a prompt of 2 exceed "
                                     "the context of 48"));
  EXPECT_THAT(note_.str(), ContainsRegex("CONTEXT_LIMIT, .*; /clear begins"));
}

TEST_F(FullChatTest, ContinueBeginsWithTheLastPart) {
  std::string part = "abc" + Expected("abc", 46);
  part = part.substr(part.size() - 24);
  if ((part[0] & 0xc0) == 0x80) part = part.substr(1);
  ASSERT_TRUE(Run({"abc", "/continue", "/set max_tokens 5", "de", "/show"}).ok());
  EXPECT_THAT(note_.str(), HasSubstr("a new session begins with the last "));
  EXPECT_THAT(out_.str(), HasSubstr("\n" + Expected(part + "de", 5) + "\n"));
  EXPECT_THAT(*rig_.client->ListSessions(), SizeIs(0));
}

TEST_F(FullChatTest, WithoutATextThereIsNothingToContinue) {
  ASSERT_TRUE(Run({"/continue", "abc", "/clear", "/continue"}).ok());
  EXPECT_THAT(note_.str(), ContainsRegex("has no text yet(.|\n)*has no text yet"));
}

TEST(ChatSettings, ParseEveryKind) {
  GenerateOptions options;
  EXPECT_TRUE(ApplySetting(" temperature 0.5", options).ok());
  EXPECT_EQ(options.sampling.temperature, 0.5);
  EXPECT_TRUE(ApplySetting("seed 18446744073709551615", options).ok());
  EXPECT_EQ(options.sampling.seed, UINT64_MAX);
  EXPECT_FALSE(ApplySetting("seed -1", options).ok());
  EXPECT_FALSE(ApplySetting("max_tokens 99999999999", options).ok());
  EXPECT_FALSE(ApplySetting("top_k 1 2", options).ok());
  EXPECT_TRUE(ApplySetting("seed -", options).ok());
  EXPECT_FALSE(options.sampling.seed.has_value());
}

TEST(ForTerminal, EscapesWhatAModelMustNotSend) {
  EXPECT_EQ(ForTerminal("a\nb\tc"), "a\nb\tc");
  EXPECT_EQ(ForTerminal("\x1b[2J\r"), "\\x1b[2J\\x0d");
  EXPECT_EQ(ForTerminal("\n"), "\n");
  EXPECT_EQ(ForTerminal(""), "");
}

}  // namespace
}  // namespace mnemon::client
