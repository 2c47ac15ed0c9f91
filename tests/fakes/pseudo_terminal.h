// SPDX-License-Identifier: MIT
// A program on a pseudo terminal, which a test types at and reads.
#pragma once

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/patience.h"

namespace mnemon {

// Killed when its owner is destroyed.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(std::vector<std::string> argv, int columns = 0) {
    winsize size = SizeOf(columns);
    pid_ = forkpty(&fd_, nullptr, nullptr, columns > 0 ? &size : nullptr);
    if (pid_ != 0) return;
    std::vector<char*> pointers;
    for (std::string& one : argv) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  ~PseudoTerminal() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(fd_);
  }

  void Type(const std::string& keys) {
    ASSERT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // Output up to `text`; all output if it does not come within a minute.
  std::string Until(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    size_t at;
    while ((at = unread_.find(text)) == unread_.npos &&
           std::chrono::steady_clock::now() < deadline) {
      if (!Fill()) break;
    }
    EXPECT_NE(at, unread_.npos) << "no '" << text << "' in: " << unread_;
    const size_t end = at == unread_.npos ? unread_.size() : at + text.size();
    std::string shown = unread_.substr(0, end);
    unread_.erase(0, end);
    return shown;
  }

  void Signal(int signal) { kill(pid_, signal); }
  void Resize(int columns) {
    const winsize size = SizeOf(columns);
    ASSERT_EQ(ioctl(fd_, TIOCSWINSZ, &size), 0);
  }

  // The exit code, when it has closed the terminal.
  int Wait() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline && Fill()) {
    }
    if (std::chrono::steady_clock::now() >= deadline) return -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& unread() const { return unread_; }

 private:
  static winsize SizeOf(int columns) {
    return {.ws_row = 24,
            .ws_col = static_cast<unsigned short>(columns),
            .ws_xpixel = 0,
            .ws_ypixel = 0};
  }
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

}  // namespace mnemon
