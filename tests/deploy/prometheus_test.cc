// SPDX-License-Identifier: MIT
// What deploy/ holds for Prometheus and Grafana, tried with a Prometheus that scrapes a
// server under load: in a hurry, or, with MNEMON_TEST_LOAD_SECONDS, with the intervals
// as they are shipped, for so long, and with a table of what the dashboard then shows.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/files/json.h"
#include "base/process/child_process.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/http_get.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kPrometheus[] = "/usr/bin/prometheus";
constexpr char kPromtool[] = "/usr/bin/promtool";
constexpr char kMissing[] = "Prometheus is missing: run scripts/install-deps ops";
// The load goes on until every query has data, at most as long.

// 0: in a hurry.
seconds LoadSeconds() {
  const char* text = std::getenv("MNEMON_TEST_LOAD_SECONDS");
  return seconds(text == nullptr ? 0 : std::atoi(text));
}

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

// A port that was free a moment ago: Prometheus does not report one that it chose
// itself.
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

struct Query {
  std::string title;  // of its panel, and its line there
  std::string text;
};

// Every query of the dashboard, as Grafana would send it: its rate interval is four
// scrapes.
std::vector<Query> DashboardQueries(seconds scrape_interval) {
  const json dashboard =
      Parsed(Read(StrCat(MNEMON_SOURCE_DIR, "/deploy/grafana/dashboards/mnemon.json")),
             "json");
  std::vector<Query> queries;
  for (const json& panel : dashboard.value("panels", json::array())) {
    for (const json& target : panel.value("targets", json::array())) {
      const std::string line = target.value("legendFormat", "");
      queries.push_back(
          {.title = StrCat(panel.value("title", ""), line.empty() ? "" : ": ", line),
           .text = absl::StrReplaceAll(
               target.value("expr", ""),
               {{"$__rate_interval", StrCat((4 * scrape_interval).count(), "s")},
                {"$instance", ".+"},
                {"$model", ".+"}})});
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
    EXPECT_EQ(child.Wait(kPatience), 0) << StrJoin(words, " ") << "\n"
                                        << child.out() << child.err();
    return child.out();
  }
  static std::string Binary(const std::string& name) {
    return StrCat(MNEMON_BINARY_DIR, "/bin/", name);
  }

  std::string Train(const std::string& config) const {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "to be or not to be, ";
    std::ofstream(dir_ + "/text") << text;
    Run({Binary("mnemon-train"), "fit", "--config",
         StrCat(MNEMON_SOURCE_DIR, "/train/configs/", config), "--set",
         "data.text=" + dir_ + "/text", "--set", "train.steps=1", "--set",
         "model.d_model=16", "--set", "model.d_ff=32", "--set", "model.layers=1",
         "--out", dir_ + "/run"});
    return dir_ + "/run/best";
  }

  std::string dir_;
};

TEST_F(Deploy, PromtoolAccepts) {
  if (!std::filesystem::exists(kPromtool)) {
    GTEST_SKIP() << kMissing;
  }
  Run({kPromtool, "check", "config", dir_ + "/prometheus/prometheus.yml"});
  Run({kPromtool, "check", "rules", dir_ + "/prometheus/alerts.yml"});
  Run({kPromtool, "test", "rules", dir_ + "/prometheus/alerts_test.yml"});
}

// Alerts and panels use metrics that the documentation lists.
TEST_F(Deploy, NamesAreDocumented) {
  const std::string docs = Read(StrCat(MNEMON_SOURCE_DIR, "/docs/operations.md"));
  std::string texts = Read(dir_ + "/prometheus/alerts.yml");
  for (const Query& query : DashboardQueries(seconds(1))) texts += query.text + "\n";
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

// Clients that call again and again, in some threads, until it ends.
class Load {
 public:
  Load(int threads, std::function<void(int)> once) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, once, i] {
        while (!stop_) once(i);
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

class Stack : public Deploy {
 protected:
  void SetUp() override {
    Deploy::SetUp();
    if (!std::filesystem::exists(kPrometheus)) GTEST_SKIP() << kMissing;
    StartServer();
    if (!HasFatalFailure()) StartPrometheus();
  }

  // `standard_error`: the file that is opened for it; empty: ChildProcess's.
  void StartServer(const std::string& config = "causal-small.toml",
                   const std::string& standard_error = "") {
    std::vector<std::string> words = {Binary("mnemon-server"),
                                      "--checkpoint",
                                      Train(config),
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--port-file",
                                      dir_ + "/port",
                                      "--http",
                                      "127.0.0.1:0",
                                      "--http-port-file",
                                      dir_ + "/http",
                                      "--data-dir",
                                      dir_ + "/sessions",
                                      "--threads",
                                      "1",
                                      "--idle-timeout",
                                      "600",
                                      "--grace",
                                      "600"};
    if (!standard_error.empty()) {
      const std::vector<std::string> shell = {"/bin/sh", "-c", "exec \"$@\" 2> \"$0\"",
                                              standard_error};
      words.insert(words.begin(), shell.begin(), shell.end());
    }
    server_ = std::make_unique<ChildProcess>(dir_, words);
    for (int i = 0; i < 150000 && !std::filesystem::exists(dir_ + "/port"); ++i) {
      ASSERT_FALSE(server_->Wait(milliseconds(2))) << server_->err();
    }
    address_ = "127.0.0.1:" + std::to_string(std::stoi(Read(dir_ + "/port")));
    http_ = std::stoi(Read(dir_ + "/http"));
  }

  // Uses the shipped configuration; in a hurry, with shorter intervals.
  void StartPrometheus(bool hurry = LoadSeconds() == seconds(0)) {
    std::ofstream(dir_ + "/prometheus/targets.yml")
        << "- targets: [\"127.0.0.1:" << http_ << "\"]\n";
    const std::string config = dir_ + "/prometheus/prometheus.yml";
    const std::string text = Read(config);
    ASSERT_THAT(text, HasSubstr("scrape_interval: 15s"));
    if (hurry) {
      scrape_interval_ = seconds(1);
      std::ofstream(config) << absl::StrReplaceAll(text, {{": 15s", ": 1s"}});
    }
    port_ = FreePort();
    prometheus_ = std::make_unique<ChildProcess>(
        dir_, std::vector<std::string>{kPrometheus, "--config.file=" + config,
                                       StrCat("--web.listen-address=127.0.0.1:", port_),
                                       "--storage.tsdb.path=" + dir_ + "/tsdb",
                                       "--log.level=warn"});
  }

  // A round of calls of all kinds by client `number`, some of which must fail.
  void Call(int number) {
    const std::string session = StrCat("client-", number);
    Client({"models"});
    Client({"generate", "--prompt", "to be", "--max-tokens", "100"});
    Client({"sessions", "create", session});
    for (int turn = 0; turn < 2; ++turn) {
      Client({"generate", "--session", session, "--prompt", "or not", "--max-tokens",
              "40", "--top-k", "5", "--seed", "1"});
    }
    Client({"score", "--prompt", "to be or not to be, to be or not"});
    Client({"sessions", "delete", session});
    Client(
        {"generate", "--prompt", "to", "--max-tokens", "200", "--stop-strings", "e"});
    Client(
        {"generate", "--prompt", "to", "--max-tokens", "900", "--time-limit", "0.01"});
    Client({"generate", "--prompt", "to", "--stop-token-ids", "99999"}, 1);
    Client({"generate", "--session", "nobody", "--prompt", "to"}, 1);
    // One that is killed in the middle.
    ChildProcess killed(dir_, {Binary("mnemon"), "generate", "--server", address_,
                               "--prompt", "to", "--max-tokens", "1500"});
    killed.Wait(milliseconds(60));
  }
  void Client(std::vector<std::string> words, int expected = 0) {
    words.insert(words.begin(), Binary("mnemon"));
    words.insert(words.end(), {"--server", address_});
    ChildProcess client(dir_, words);
    EXPECT_EQ(client.Wait(), expected) << StrJoin(words, " ") << client.err();
    ++calls_;
  }

  json Ask(const std::string& path) const {
    const HttpAnswer answer = HttpGet(port_, path);
    return answer.code == 200 ? Parsed(answer.body, path).value("data", json::object())
                              : json::object();
  }
  // The finite values of all series that the query has.
  std::vector<double> Values(const std::string& query) const {
    std::vector<double> values;
    for (const json& series :
         Ask("/api/v1/query?query=" + InUrl(query)).value("result", json::array())) {
      const double value = std::stod(series["value"][1].get<std::string>());
      if (std::isfinite(value)) values.push_back(value);
    }
    return values;
  }
  std::vector<std::string> WithoutData(const std::vector<Query>& queries) const {
    std::vector<std::string> without;
    for (const Query& query : queries) {
      if (Values(query.text).empty()) {
        without.push_back(StrCat(query.title, ": ", query.text));
      }
    }
    return without;
  }
  // What Grafana would draw at this moment.
  void PrintTable(const std::vector<Query>& queries) const {
    std::printf("%-62s %6s %12s\n", "panel: line", "series", "largest");
    for (const Query& query : queries) {
      const std::vector<double> values = Values(query.text);
      std::printf(
          "%-62s %6zu %12.6g\n", query.title.c_str(), values.size(),
          values.empty() ? NAN : *std::max_element(values.begin(), values.end()));
    }
    std::printf("%zu queries; %d calls of clients in %lld s\n", queries.size(),
                calls_.load(), static_cast<long long>(LoadSeconds().count()));
  }

  // Every rule is evaluated without an error, none fires, and the value that it
  // compares with its limit is there: a rule over a metric that does not exist never
  // fires.
  void ExpectRulesWork() const {
    static const std::regex limit(" (==|>|<) [0-9.]+$");
    int rules = 0;
    for (const json& group : Ask("/api/v1/rules").value("groups", json::array())) {
      for (const json& rule : group["rules"]) {
        ++rules;
        EXPECT_EQ(rule["health"], "ok") << rule;
        EXPECT_NE(rule["state"], "firing") << rule;
        const std::string query = rule["query"];
        const std::string value = std::regex_replace(query, limit, "");
        EXPECT_NE(value, query);
        EXPECT_THAT(Values(value), Not(IsEmpty())) << value;
      }
    }
    EXPECT_GE(rules, 7);
  }

  // promtool likes the page, and every metric on it is documented.
  void ExpectMetricsAreDocumented() const {
    const std::string metrics = HttpGet(http_, "/metrics").body;
    Run({kPromtool, "check", "metrics"}, metrics);
    const std::string docs = Read(StrCat(MNEMON_SOURCE_DIR, "/docs/operations.md"));
    static const std::regex type("# TYPE ([a-z_0-9]+) ([a-z]+)");
    for (std::sregex_iterator it(metrics.begin(), metrics.end(), type), end; it != end;
         ++it) {
      EXPECT_THAT(docs, HasSubstr(StrCat("`", (*it)[1].str(), "`")));
    }
  }

  seconds scrape_interval_{15};
  std::unique_ptr<ChildProcess> server_;
  std::string address_;
  int http_ = 0;
  std::unique_ptr<ChildProcess> prometheus_;
  int port_ = 0;
  std::atomic<int> calls_ = 0;
};

// A server in a bad state, and the shipped rules with seconds in the place of minutes.
class Alerts : public Stack {
 protected:
  void SetUp() override {
    Deploy::SetUp();
    if (!std::filesystem::exists(kPrometheus)) GTEST_SKIP() << kMissing;
    const std::string rules = dir_ + "/prometheus/alerts.yml";
    const std::string text = Read(rules);
    std::ofstream(rules) << std::regex_replace(
        std::regex_replace(text, std::regex("for: [0-9]+m"), "for: 2s"),
        std::regex("\\[5m\\]"), "[10s]");
    // A model without a context limit: a call continues until it stalls.
    StartServer("fast_weights-small.toml", "/dev/full");
    if (!HasFatalFailure()) StartPrometheus(/*hurry=*/true);
  }

  std::set<std::string> Firing() const {
    std::set<std::string> firing;
    for (const json& alert : Ask("/api/v1/alerts").value("alerts", json::array())) {
      if (alert.value("state", "") == "firing") {
        firing.insert(alert["labels"]["alertname"].get<std::string>());
      }
    }
    return firing;
  }
  // Does `meanwhile` again and again until the alert fires.
  testing::AssertionResult Fires(
      const std::string& name, const std::function<void()>& meanwhile = [] {}) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!Firing().contains(name)) {
      meanwhile();
      if (std::chrono::steady_clock::now() > deadline) {
        return testing::AssertionFailure() << name << " does not fire";
      }
      if (prometheus_->Wait(milliseconds(200))) {
        return testing::AssertionFailure() << prometheus_->err();
      }
    }
    return testing::AssertionSuccess();
  }
};

TEST_F(Alerts, FireInTheStatesTheyAreFor) {
  // Every line of the log is lost: its disk is full.
  EXPECT_TRUE(Fires("MnemonLogLinesLost", [&] { Client({"models"}); }));

  // Clients that stop to read: more than the connection holds comes.
  std::vector<std::unique_ptr<ChildProcess>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<ChildProcess>(
        dir_, std::vector<std::string>{Binary("mnemon"), "generate", "--server",
                                       address_, "--prompt", "to", "--max-tokens",
                                       "65536", "--logprobs", "8"}));
  }
  for (const auto& client : clients) {
    for (int i = 0; i < 150000 && client->out().empty(); ++i) {
      ASSERT_FALSE(client->Wait(milliseconds(2))) << client->err();
    }
    client->Signal(SIGSTOP);
  }
  EXPECT_TRUE(Fires("MnemonReadersStall"));
  EXPECT_THAT(Firing(), Not(Contains("MnemonNotReady")));

  // They hold up a drain, in which no model is ready.
  server_->Signal(SIGTERM);
  EXPECT_TRUE(Fires("MnemonNotReady"));
  clients.clear();
  EXPECT_EQ(server_->Wait(), 0);
}

TEST_F(Stack, EveryQueryHasDataUnderLoad) {
  const auto queries = DashboardQueries(scrape_interval_);
  ASSERT_GE(queries.size(), 40u);
  auto load = std::make_unique<Load>(3, [&](int number) { Call(number); });
  ASSERT_FALSE(prometheus_->Wait(LoadSeconds())) << prometheus_->err();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  auto without = WithoutData(queries);
  while (LoadSeconds() == seconds(0) && !without.empty() &&
         std::chrono::steady_clock::now() < deadline) {
    ASSERT_FALSE(prometheus_->Wait(milliseconds(200))) << prometheus_->err();
    without = WithoutData(queries);
  }
  EXPECT_THAT(without, IsEmpty());
  if (LoadSeconds() > seconds(0)) PrintTable(queries);
  ExpectRulesWork();
  ExpectMetricsAreDocumented();
  load.reset();
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->err();
  prometheus_->Signal(SIGTERM);
  EXPECT_EQ(prometheus_->Wait(), 0) << prometheus_->err();
}

}  // namespace
}  // namespace mnemon
