// SPDX-License-Identifier: MIT
// What deploy/ holds for Prometheus and Grafana, tried with a Prometheus that scrapes a
// server under load.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/json.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/child_process.h"
#include "tests/fakes/http_get.h"

namespace mnemon {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kPrometheus[] = "/usr/bin/prometheus";
constexpr char kPromtool[] = "/usr/bin/promtool";
// The load goes on until every query has data, at most as long.
constexpr seconds kPatience{60};

std::string Read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

json Parsed(const std::string& text, const std::string& what) {
  auto parsed = ParseJson(text, what);
  EXPECT_TRUE(parsed.ok()) << parsed.status() << text.substr(0, 200);
  return parsed.ok() ? *parsed : json::object();
}

std::string InUrl(const std::string& text) {
  std::string url;
  for (unsigned char c : text) absl::StrAppendFormat(&url, "%%%02X", c);
  return url;
}

// A port that was free a moment ago: Prometheus does not tell one that it chose itself.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

// Title and expression of every query of the dashboard, as Grafana would send it.
std::vector<std::pair<std::string, std::string>> DashboardQueries() {
  const json dashboard =
      Parsed(Read(StrCat(MNEMON_SOURCE_DIR, "/deploy/grafana/dashboards/mnemon.json")),
             "json");
  std::vector<std::pair<std::string, std::string>> queries;
  for (const json& panel : dashboard.value("panels", json::array())) {
    for (const json& target : panel.value("targets", json::array())) {
      queries.emplace_back(
          panel.value("title", ""),
          absl::StrReplaceAll(
              target.value("expr", ""),
              {{"$__rate_interval", "8s"}, {"$instance", ".+"}, {"$model", ".+"}}));
    }
  }
  return queries;
}

class Deploy : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/mnemon-deploy-" + std::to_string(getpid());
    std::filesystem::create_directories(dir_);
    std::filesystem::copy(StrCat(MNEMON_SOURCE_DIR, "/deploy/prometheus"),
                          dir_ + "/prometheus");
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Standard output of a program that must end with 0.
  std::string Run(const std::vector<std::string>& words,
                  const std::string& input = "") const {
    ChildProcess child(dir_, words, input);
    EXPECT_EQ(child.Wait(seconds(120)), 0) << StrJoin(words, " ") << "\n"
                                           << child.out() << child.err();
    return child.out();
  }
  static std::string Binary(const std::string& name) {
    return StrCat(MNEMON_BINARY_DIR, "/bin/", name);
  }

  std::string Train() const {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "to be or not to be, ";
    std::ofstream(dir_ + "/text") << text;
    Run({Binary("mnemon-train"), "fit", "--config",
         StrCat(MNEMON_SOURCE_DIR, "/train/configs/causal-small.toml"), "--set",
         "data.text=" + dir_ + "/text", "--set", "train.steps=1", "--set",
         "model.d_model=16", "--set", "model.d_ff=32", "--set", "model.layers=1",
         "--out", dir_ + "/run"});
    return dir_ + "/run/best";
  }

  std::string dir_;
};

TEST_F(Deploy, PromtoolAccepts) {
  if (!std::filesystem::exists(kPromtool)) {
    GTEST_SKIP() << "promtool is missing: install the package prometheus";
  }
  Run({kPromtool, "check", "config", dir_ + "/prometheus/prometheus.yml"});
  Run({kPromtool, "check", "rules", dir_ + "/prometheus/alerts.yml"});
  Run({kPromtool, "test", "rules", dir_ + "/prometheus/alerts_test.yml"});
}

// Alerts and panels speak of metrics that the documentation lists.
TEST_F(Deploy, NamesAreDocumented) {
  const std::string docs = Read(StrCat(MNEMON_SOURCE_DIR, "/docs/operations.md"));
  std::string texts = Read(dir_ + "/prometheus/alerts.yml");
  for (const auto& [title, query] : DashboardQueries()) texts += query + "\n";
  static const std::regex name("(mnemon|grpc_server)_[a-z_0-9]+");
  std::set<std::string> unknown;
  for (std::sregex_iterator it(texts.begin(), texts.end(), name), end; it != end;
       ++it) {
    const std::string base =
        std::regex_replace(it->str(), std::regex("_(bucket|sum|count)$"), "");
    if (docs.find("`" + base + "`") == std::string::npos) unknown.insert(base);
  }
  EXPECT_THAT(unknown, IsEmpty());
}

class Load {
 public:
  // Runs `once` again and again, in some threads, until it ends.
  Load(int threads, std::function<void()> once) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, once] {
        while (!stop_) once();
      });
    }
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

TEST_F(Deploy, EveryQueryHasDataUnderLoad) {
  if (!std::filesystem::exists(kPrometheus)) {
    GTEST_SKIP() << "Prometheus is missing: install the package prometheus";
  }
  const std::string http_file = dir_ + "/http";
  ChildProcess server(
      dir_, {Binary("mnemon-server"), "--checkpoint", Train(), "--listen",
             "127.0.0.1:0", "--port-file", dir_ + "/port", "--http", "127.0.0.1:0",
             "--http-port-file", http_file, "--threads", "1"});
  for (int i = 0; i < 15000 && !std::filesystem::exists(dir_ + "/port"); ++i) {
    ASSERT_FALSE(server.Wait(milliseconds(0))) << server.err();
    std::this_thread::sleep_for(milliseconds(2));
  }
  const std::string address =
      "127.0.0.1:" + std::to_string(std::stoi(Read(dir_ + "/port")));
  const int http = std::stoi(Read(http_file));

  // The shipped configuration, in a hurry.
  std::ofstream(dir_ + "/prometheus/targets.yml")
      << "- targets: [\"127.0.0.1:" << http << "\"]\n";
  const std::string config = dir_ + "/prometheus/prometheus.yml";
  const std::string text = absl::StrReplaceAll(
      Read(config), {{"scrape_interval: 15s", "scrape_interval: 1s"},
                     {"evaluation_interval: 15s", "evaluation_interval: 1s"}});
  ASSERT_THAT(text, Not(HasSubstr("15s")));
  std::ofstream(config) << text;
  const int port = FreePort();
  ChildProcess prometheus(
      dir_, {kPrometheus, "--config.file=" + config,
             StrCat("--web.listen-address=127.0.0.1:", port),
             "--storage.tsdb.path=" + dir_ + "/tsdb", "--log.level=warn"});
  const auto ask = [&](const std::string& path) {
    const HttpAnswer answer = HttpGet(port, path);
    return answer.code == 200 ? Parsed(answer.body, path) : json::object();
  };

  Load load(2, [&] {
    ChildProcess client(dir_, {Binary("mnemon"), "generate", "--prompt", "to be",
                               "--max-tokens", "200", "--server", address});
    client.Wait();
  });
  const auto queries = DashboardQueries();
  ASSERT_GE(queries.size(), 40u);
  std::vector<std::string> without = {"all"};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!without.empty() && std::chrono::steady_clock::now() < deadline) {
    ASSERT_FALSE(prometheus.Wait(milliseconds(200))) << prometheus.err();
    without.clear();
    for (const auto& [title, query] : queries) {
      const json answer = ask("/api/v1/query?query=" + InUrl(query));
      bool found = false;
      for (const json& series :
           answer.value("data", json::object()).value("result", json::array())) {
        found |= std::isfinite(std::stod(series["value"][1].get<std::string>()));
      }
      if (!found) without.push_back(title + ": " + query);
    }
  }
  EXPECT_THAT(without, IsEmpty());

  // The rules that Prometheus has loaded work, and none has fired.
  int rules = 0;
  const json loaded = ask("/api/v1/rules");
  for (const json& group : loaded.at("data").at("groups")) {
    for (const json& rule : group["rules"]) {
      ++rules;
      EXPECT_EQ(rule["health"], "ok") << rule;
      EXPECT_NE(rule["state"], "firing") << rule;
    }
  }
  EXPECT_GE(rules, 7);

  const std::string metrics = HttpGet(http, "/metrics").body;
  Run({kPromtool, "check", "metrics"}, metrics);
  // Documented, every one of them.
  const std::string docs = Read(StrCat(MNEMON_SOURCE_DIR, "/docs/operations.md"));
  static const std::regex type("# TYPE ([a-z_0-9]+) ([a-z]+)");
  for (std::sregex_iterator it(metrics.begin(), metrics.end(), type), end; it != end;
       ++it) {
    EXPECT_THAT(docs, HasSubstr(StrCat("`", (*it)[1].str(), "`")));
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.err();
  prometheus.Signal(SIGTERM);
  EXPECT_EQ(prometheus.Wait(), 0) << prometheus.err();
}

}  // namespace
}  // namespace mnemon
