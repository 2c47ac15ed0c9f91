// SPDX-License-Identifier: MIT
// The unit of systemd, and the steps of docs/operations.md that install it: done by a
// shell in folders of the test, and then what systemd does with the unit.
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/process/child_process.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Content(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

std::string Replaced(std::string text, const std::string& what,
                     const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// Where the service manager hears of a service: $NOTIFY_SOCKET.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) {
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(
        ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
    fs::permissions(path, fs::perms::all);
    const timeval limit = {.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  ~NotifySocket() { ::close(socket_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  // The next message; empty when none comes in time.
  std::string Next() const {
    char buffer[256];
    const ssize_t got = ::recv(socket_, buffer, sizeof(buffer), 0);
    return got < 0 ? "" : std::string(buffer, static_cast<size_t>(got));
  }

 private:
  int socket_ = -1;
};

class Systemd : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = StrCat(testing::TempDir(), "/mnemon-systemd-", getpid());
    fs::create_directories(dir_);
    fs::permissions(dir_, fs::perms(0755));
    unit_ = Content(MNEMON_SOURCE_DIR "/deploy/systemd/mnemon.service");
  }
  void TearDown() override { fs::remove_all(dir_); }

  // The value of a key of the unit.
  std::string Value(const std::string& key) const {
    const size_t at = unit_.find(StrCat("\n", key, "="));
    EXPECT_NE(at, unit_.npos) << key;
    if (at == unit_.npos) return "";
    const size_t begin = at + key.size() + 2;
    return unit_.substr(begin, unit_.find('\n', begin) - begin);
  }
  void Run(const std::vector<std::string>& words) const {
    ChildProcess child(dir_, words);
    EXPECT_EQ(child.Wait(kPatience), 0) << child.out() << child.err();
  }
  // The commands under the heading "systemd".
  static std::string DocumentedSteps() {
    const std::string text = Content(MNEMON_SOURCE_DIR "/docs/operations.md");
    const size_t section = text.find("\n## systemd\n");
    const size_t begin = text.find("\n```\n", section) + 5;
    return text.substr(begin, text.find("```\n", begin) - begin);
  }
  // A checkpoint run/best in the folder of the test.
  void Train() const {
    std::ofstream text(dir_ + "/text.txt");
    for (int i = 0; i < 200; ++i) text << "the cat sat " << i % 7 << "\n";
    text.close();
    Run({MNEMON_BINARY_DIR "/bin/mnemon-train", "fit", "--config",
         MNEMON_SOURCE_DIR "/train/configs/causal-small.toml", "--set",
         StrCat("data.text=", dir_, "/text.txt"), "train.steps=1", "model.layers=1",
         "model.d_model=8", "model.heads=2", "model.d_ff=16", "sample.tokens=0",
         "--out", dir_ + "/run"});
  }

  std::string dir_;
  std::string unit_;
};

TEST_F(Systemd, TakesTheUnit) {
  const std::string analyze = "/usr/bin/systemd-analyze";
  if (!fs::exists(analyze)) {
    GTEST_SKIP() << "systemd-analyze is missing: install the package systemd";
  }
  // The program must be where systemd looks; here it is where this test can see it.
  std::ofstream(dir_ + "/mnemon.service")
      << Replaced(unit_, "ExecStart=mnemon-server",
                  "ExecStart=" MNEMON_BINARY_DIR "/bin/mnemon-server");
  ChildProcess verify(dir_, {analyze, "verify", "--man=no", dir_ + "/mnemon.service"});
  EXPECT_EQ(verify.Wait(kPatience), 0) << verify.err();
  EXPECT_THAT(verify.err(), Not(HasSubstr("mnemon.service:"))) << verify.err();
  ChildProcess security(dir_, {analyze, "security", "--offline=true", "--threshold=20",
                               dir_ + "/mnemon.service"});
  EXPECT_EQ(security.Wait(kPatience), 0) << "exposed by more than 2.0:\n"
                                         << security.out() << security.err();
}

TEST_F(Systemd, TheUnitFitsTheServer) {
  // systemd looks for it in /usr/local/bin, where cmake --install puts it.
  EXPECT_EQ(Value("ExecStart"), "mnemon-server");
  EXPECT_EQ(Value("Type"), "notify");
  ChildProcess help(dir_, {MNEMON_BINARY_DIR "/bin/mnemon-server", "--help"});
  ASSERT_EQ(help.Wait(kPatience), 0);
  const std::string grace = "[0, 86400]=";
  const size_t at = help.out().find(grace, help.out().find("--grace "));
  ASSERT_NE(at, std::string::npos) << help.out();
  EXPECT_GE(std::stod(Value("TimeoutStopSec")),
            std::stod(help.out().substr(at + grace.size())) + 5);
  EXPECT_GE(std::stol(Value("LimitNOFILE")), 65536);
  // A start that no restart mends.
  EXPECT_EQ(Value("RestartPreventExitStatus"), "2");
  ChildProcess wrong(dir_, {MNEMON_BINARY_DIR "/bin/mnemon-server", "--nonsense"});
  EXPECT_EQ(wrong.Wait(kPatience), 2);
}

// As a user that owns nothing, with the environment of the file and no other.
TEST_F(Systemd, TheDocumentedStepsServe) {
  Train();
  const std::string state_name = StrCat("/var/lib/", Value("StateDirectory"));
  const std::string environment_file = Value("EnvironmentFile");
  const std::string etc = dir_ + "/etc", state = dir_ + "/state";
  std::istringstream steps(DocumentedSteps());
  std::string script;
  int systemctl = 0;
  for (std::string line; std::getline(steps, line);) {
    if (line.rfind("systemctl ", 0) == 0) {
      ++systemctl;
      continue;
    }
    EXPECT_EQ(systemctl, 0) << line << ": after systemctl";
    script += line + "\n";
  }
  EXPECT_EQ(systemctl, 2);
  script = Replaced(Replaced(script, "/etc/mnemon", etc), state_name, state);
  EXPECT_THAT(script, Not(HasSubstr(" /etc"))) << "what the test cannot redirect";
  EXPECT_THAT(script, Not(HasSubstr(" /var"))) << "what the test cannot redirect";
  Run({"/bin/sh", "-euc", StrCat("umask 077\ncd ", dir_, "\n", script)});

  const NotifySocket notify(dir_ + "/notify");
  const std::string binary = Value("ExecStart");
  std::vector<std::string> start;
  if (geteuid() == 0) {
    start = {"/usr/bin/setpriv", "--reuid=65534",  "--regid=65534",
             "--clear-groups",   "--no-new-privs", "--bounding-set=-all"};
  }
  for (const char* word : {"/usr/bin/env", "-i", "-C"}) start.push_back(word);
  start.push_back(state);
  start.push_back(StrCat("NOTIFY_SOCKET=", dir_, "/notify"));
  std::ifstream environment(Replaced(environment_file, "/etc/mnemon", etc));
  int variables = 0;
  for (std::string line; std::getline(environment, line); ++variables) {
    EXPECT_THAT(line, HasSubstr("MNEMON_SERVER_"));
    start.push_back(line);
  }
  EXPECT_GE(variables, 1) << environment_file;
  // Any free port, where a service has its own.
  start.push_back("MNEMON_SERVER_LISTEN=127.0.0.1:0");
  start.push_back("MNEMON_SERVER_HTTP=127.0.0.1:0");
  start.push_back(StrCat(MNEMON_BINARY_DIR "/bin/", binary));
  ChildProcess server(dir_, start);
  EXPECT_EQ(notify.Next(), "READY=1") << server.err();
  server.Signal(SIGTERM);
  EXPECT_EQ(notify.Next(), "STOPPING=1") << server.err();
  EXPECT_EQ(server.Wait(seconds(std::stol(Value("TimeoutStopSec")))), 0)
      << server.err();
}

// Each flag that unit, documentation and container name exists.
TEST_F(Systemd, EveryNamedVariableIsOneOfTheServer) {
  ChildProcess help(dir_, {MNEMON_BINARY_DIR "/bin/mnemon-server", "--help"});
  ASSERT_EQ(help.Wait(kPatience), 0);
  const std::string known = help.out();
  for (const char* file : {"deploy/systemd/mnemon.service", "deploy/debian/server.env",
                           "deploy/compose.yml", "Dockerfile", "docs/operations.md",
                           "scripts/run-dockerfile", "scripts/check"}) {
    const std::string text = Content(StrCat(MNEMON_SOURCE_DIR "/", file));
    ASSERT_FALSE(text.empty()) << file;
    const std::string prefix = "MNEMON_SERVER_";
    for (size_t at = 0; (at = text.find(prefix, at)) != text.npos;) {
      size_t end = at + prefix.size();
      while (end < text.size() && (isupper(text[end]) != 0 || text[end] == '_')) ++end;
      const std::string name = text.substr(at, end - at);
      at = end;
      if (name == prefix + "FLAG" || name == prefix) continue;
      EXPECT_THAT(known, HasSubstr(StrCat("(Env:", name, ")"))) << file;
    }
  }
}

}  // namespace
}  // namespace mnemon
