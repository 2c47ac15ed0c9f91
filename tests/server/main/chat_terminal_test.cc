// SPDX-License-Identifier: MIT
// `mnemon chat` on a terminal: editing, history, Ctrl-C and Ctrl-D.
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "tests/fakes/pseudo_terminal.h"
#include "tests/server/main/server_binary.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPrompt[] = ">>> ";
constexpr char kUp[] = "\x1b[A";
constexpr char kLeft[] = "\x1b[D";
constexpr char kBackspace[] = "\x7f";
constexpr char kCtrlC[] = "\x03";
constexpr char kCtrlD[] = "\x04";

class ChatTerminal : public ServerBinary {
 protected:
  void SetUp() override {
    setenv("XDG_STATE_HOME", Path("state").c_str(), 1);
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C", 1);
    std::filesystem::remove_all(Path("state"));
    server_ = Listening();
  }
  void TearDown() override {
    unsetenv("XDG_STATE_HOME");
    unsetenv("LC_ALL");
  }

  std::unique_ptr<PseudoTerminal> Chat(const std::string& max_tokens = "5") {
    auto chat = std::make_unique<PseudoTerminal>(std::vector<std::string>{
        StrCat(MNEMON_BINARY_DIR, "/bin/mnemon"), "chat", "--server",
        "127.0.0.1:" + port_, "--max-tokens", max_tokens});
    chat->Until(kPrompt);
    return chat;
  }

  // Sends the line that was typed, and waits until it is answered; /show tells of what
  // the model got.
  static void Enter(PseudoTerminal& chat) {
    chat.Type("\r");
    chat.Until(kPrompt);
  }
  static std::string Tokens(PseudoTerminal& chat) {
    chat.Type("/show\r");
    chat.Until("\ntokens      ");
    const std::string count = chat.Until("\r\n");
    chat.Until(kPrompt);
    return count.substr(0, count.size() - 2);
  }

  static std::string HistoryPath() { return Path("state/mnemon/chat_history"); }
  static std::string History() {
    std::ifstream file(HistoryPath());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::unique_ptr<ChildProcess> server_;
};

TEST_F(ChatTerminal, EditsLinesAndRecallsThem) {
  auto chat = Chat();
  chat->Type(StrCat("abd", kLeft, "c"));
  Enter(*chat);
  EXPECT_EQ(Tokens(*chat), "9");
  // "/show" and then "abcd", changed to "abce".
  chat->Type(StrCat(kUp, kUp, kBackspace, "e"));
  Enter(*chat);
  EXPECT_EQ(Tokens(*chat), "18");
  chat->Type(kCtrlD);
  EXPECT_EQ(chat->Wait(), 0);
  EXPECT_THAT(History(), HasSubstr("\nabcd\n"));
  EXPECT_THAT(History(), HasSubstr("\nabce\n"));
  struct stat facts = {};
  ASSERT_EQ(stat(HistoryPath().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(ChatTerminal, HistoryIsKeptAndBounded) {
  std::filesystem::create_directories(Path("state/mnemon"));
  std::ofstream file(HistoryPath());
  file << "_HiStOrY_V2_\n";
  for (int i = 0; i < 1500; ++i) file << "old" << i << "\n";
  file.close();
  auto first = Chat();
  auto second = Chat();
  first->Type("first");
  Enter(*first);
  second->Type("second");
  Enter(*second);
  first->Type(kCtrlD);
  EXPECT_EQ(first->Wait(), 0);
  second->Type(kCtrlD);
  EXPECT_EQ(second->Wait(), 0);
  const std::string lines = History();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1001);
  EXPECT_THAT(lines, HasSubstr("\nfirst\nsecond\n"));
  EXPECT_THAT(lines, HasSubstr("\nold1499\n"));
  auto third = Chat();
  third->Type(StrCat(kUp, "s"));
  third->Until("seconds");
}

TEST_F(ChatTerminal, AHistoryThatCannotBeKeptIsNoError) {
  std::ofstream(Path("state")) << "a file";
  auto chat = Chat();
  chat->Type("abc");
  Enter(*chat);
  chat->Type(kCtrlD);
  EXPECT_EQ(chat->Wait(), 0) << chat->unread();
  EXPECT_THAT(chat->unread(), Not(HasSubstr("state")));
}

TEST_F(ChatTerminal, CtrlCDropsTheLineOrTheAnswer) {
  auto chat = Chat("65536");
  chat->Type("zzz");
  chat->Until("zzz");
  chat->Type(kCtrlC);
  chat->Until(kPrompt);
  EXPECT_EQ(Tokens(*chat), "0");
  chat->Type("ab\r");
  chat->Until("ab\r\n");
  for (int i = 0; i < 3; ++i) chat->Until("\n");  // it streams
  chat->Type(kCtrlC);
  chat->Until(kPrompt);
  EXPECT_NE(Tokens(*chat), "0");
  chat->Signal(SIGTERM);
  EXPECT_EQ(chat->Wait(), 143);
  EXPECT_THAT(Mnemon({"sessions", "list"}), Not(HasSubstr("IDLE")));
}

TEST_F(ChatTerminal, ReadsUtf8WhateverTheLocale) {
  auto chat = Chat();
  chat->Type(StrCat("a\xc3\xa9\xe2\x82\xac", kBackspace, kLeft, "b"));
  chat->Type("\r");
  chat->Until("'\xc3\xa9' (U+00E9) at byte 2");
  chat->Until(kPrompt);
  chat->Type(kCtrlD);
  EXPECT_EQ(chat->Wait(), 0);
}

}  // namespace
}  // namespace mnemon
