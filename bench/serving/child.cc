// SPDX-License-Identifier: MIT
#include "bench/serving/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/strings.h"

namespace mnemon::serving {
namespace {

constexpr std::chrono::milliseconds kPoll{2};
constexpr size_t kQuoted = 600;  // bytes of a failed program's output

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Child::Child(const std::vector<std::string>& words, const std::string& log) {
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  MNEMON_CHECK(out >= 0 && null >= 0);
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  MNEMON_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    // A tool that is killed takes its servers along.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(null, 0);
    dup2(out, 1);
    dup2(out, 2);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(out);
  close(null);
}

Child::~Child() {
  if (code_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<int> Child::Wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!code_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (std::chrono::steady_clock::now() > deadline) {
      return std::nullopt;
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
  return code_;
}

void Child::Terminate() {
  if (!code_) kill(pid_, SIGTERM);
}

double Child::CpuSeconds() const {
  const std::string line = Slurp(StrCat("/proc/", pid_, "/stat"));
  // The name, which may hold spaces, ends at the last parenthesis; utime and stime are
  // the 12th and 13th field behind it.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(line.substr(end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

absl::StatusOr<std::string> RunToEnd(const std::vector<std::string>& words,
                                     const std::string& log,
                                     std::chrono::milliseconds timeout) {
  Child child(words, log);
  const std::optional<int> code = child.Wait(timeout);
  std::string output = Slurp(log);
  if (code == 0) return output;
  if (output.size() > kQuoted) output = output.substr(output.size() - kQuoted);
  if (!code) {
    return absl::DeadlineExceededError(
        StrCat(words[0], " took more than ", timeout.count(), " ms: ", output));
  }
  return absl::InternalError(StrCat(words[0], " ended with ", *code, ": ", output));
}

}  // namespace mnemon::serving
