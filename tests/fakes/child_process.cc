// SPDX-License-Identifier: MIT
#include "tests/fakes/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/check.h"

namespace mnemon {
namespace {

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int OpenForWriting(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

}  // namespace

ChildProcess::ChildProcess(const std::string& dir, const std::vector<std::string>& argv,
                           const std::optional<std::string>& input) {
  static std::atomic<int> number{0};
  const std::string base = dir + "/child" + std::to_string(number++);
  out_path_ = base + ".out";
  err_path_ = base + ".err";
  const int out = OpenForWriting(out_path_);
  const int err = OpenForWriting(err_path_);
  int in[2];
  MNEMON_CHECK(out >= 0 && err >= 0 && pipe2(in, O_CLOEXEC) == 0);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_ = fork();
  MNEMON_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out, 1);
    dup2(err, 2);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(out);
  close(err);
  close(in[0]);
  input_ = in[1];
  if (input) {
    MNEMON_CHECK(write(input_, input->data(), input->size()) ==
                 static_cast<ssize_t>(input->size()));
    close(input_);
    input_ = -1;
  }
}

ChildProcess::~ChildProcess() {
  if (!code_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (input_ >= 0) close(input_);
}

void ChildProcess::Signal(int signal) {
  if (!code_) kill(pid_, signal);
}

std::optional<int> ChildProcess::Wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!code_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (std::chrono::steady_clock::now() > deadline) {
      return std::nullopt;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return code_;
}

std::string ChildProcess::out() const { return Slurp(out_path_); }
std::string ChildProcess::err() const { return Slurp(err_path_); }

}  // namespace mnemon
