// SPDX-License-Identifier: MIT
#include "base/process/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr std::chrono::milliseconds kPoll{2};
constexpr size_t kQuoted = 600;  // bytes of a failed program's output

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int OpenForWriting(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

}  // namespace

ChildProcess::ChildProcess(const std::string& directory,
                           const std::vector<std::string>& argv,
                           const std::optional<std::string>& input) {
  static std::atomic<int> number{0};
  const std::string base = directory + "/child" + std::to_string(number++);
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
  const pid_t parent = getpid();
  pid_ = fork();
  MNEMON_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
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
      std::this_thread::sleep_for(kPoll);
    }
  }
  return code_;
}

std::string ChildProcess::out() const { return Slurp(out_path_); }
std::string ChildProcess::err() const { return Slurp(err_path_); }

double ChildProcess::CpuSeconds() const {
  const std::string line = Slurp(StrCat("/proc/", pid_, "/stat"));
  // The name, which may contain spaces, ends at the last parenthesis; utime and stime
  // are the 12th and 13th field after it.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(line.substr(end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

absl::StatusOr<std::string> RunToEnd(const std::string& directory,
                                     const std::vector<std::string>& argv,
                                     std::chrono::milliseconds timeout) {
  ChildProcess child(directory, argv);
  const std::optional<int> code = child.Wait(timeout);
  if (code == 0) return child.out();
  std::string output = child.out() + child.err();
  if (output.size() > kQuoted) output = output.substr(output.size() - kQuoted);
  if (!code) {
    return absl::DeadlineExceededError(
        StrCat(argv[0], " took more than ", timeout.count(), " ms: ", output));
  }
  return absl::InternalError(StrCat(argv[0], " ended with ", *code, ": ", output));
}

}  // namespace mnemon
