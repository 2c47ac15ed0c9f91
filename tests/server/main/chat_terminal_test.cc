// SPDX-License-Identifier: MIT
// `mnemon chat` on a terminal: editing, history, Ctrl-C and Ctrl-D.
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "tests/server/main/server_binary.h"

namespace mnemon {
namespace {

using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPrompt[] = ">>> ";
constexpr char kUp[] = "\x1b[A";
constexpr char kLeft[] = "\x1b[D";
constexpr char kBackspace[] = "\x7f";
constexpr char kCtrlC[] = "\x03";
constexpr char kCtrlD[] = "\x04";

// A program on a pseudo terminal. Killed when its owner is destroyed.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> argv) {
    pid_ = forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    std::vector<char*> pointers;
    for (std::string& one : argv) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  ~Terminal() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(fd_);
  }

  void Type(const std::string& keys) {
    ASSERT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // What is shown until `text` has been; all of it after ten seconds without.
  std::string Until(const std::string& text) {
    const auto deadline = steady_clock::now() + std::chrono::seconds(10);
    size_t at;
    while ((at = unread_.find(text)) == unread_.npos &&
           steady_clock::now() < deadline) {
      if (!Fill()) break;
    }
    EXPECT_NE(at, unread_.npos) << "no '" << text << "' in: " << unread_;
    const size_t end = at == unread_.npos ? unread_.size() : at + text.size();
    std::string shown = unread_.substr(0, end);
    unread_.erase(0, end);
    return shown;
  }

  void Signal(int signal) { kill(pid_, signal); }

  // The exit code, when it has closed the terminal.
  int Wait() {
    const auto deadline = steady_clock::now() + std::chrono::seconds(10);
    while (steady_clock::now() < deadline && Fill()) {
    }
    if (steady_clock::now() >= deadline) return -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& unread() const { return unread_; }

 private:
  // False at the end.
  bool Fill() {
    pollfd ready = {.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 1000) <= 0) return true;
    char bytes[4096];
    const ssize_t size = read(fd_, bytes, sizeof(bytes));
    if (size <= 0) return false;
    unread_.append(bytes, static_cast<size_t>(size));
    return true;
  }

  int fd_ = -1;
  pid_t pid_ = -1;
  std::string unread_;
};

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

  std::unique_ptr<Terminal> Chat(const std::string& max_tokens = "5") {
    auto chat = std::make_unique<Terminal>(std::vector<std::string>{
        StrCat(MNEMON_BINARY_DIR, "/bin/mnemon"), "chat", "--server",
        "127.0.0.1:" + port_, "--max-tokens", max_tokens});
    chat->Until(kPrompt);
    return chat;
  }

  // Sends the line that was typed, and waits until it is answered; /show tells of what
  // the model got.
  static void Enter(Terminal& chat) {
    chat.Type("\r");
    chat.Until(kPrompt);
  }
  static std::string Tokens(Terminal& chat) {
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
