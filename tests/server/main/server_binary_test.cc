// SPDX-License-Identifier: MIT
#include "tests/server/main/server_binary.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/process/child_process.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/http_get.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Tokens; more than any test waits for. The server must allow it: the tiny model makes
// the 65,536 tokens that it allows otherwise within half a second.
constexpr char kEndless[] = "1000000000";

// A port of loopback that takes connections and says nothing.
class SilentListener {
 public:
  SilentListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any = {.sin_family = AF_INET,
                       .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(any);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&any), size), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&any), &size), 0);
    port_ = ntohs(any.sin_port);
  }
  ~SilentListener() { close(fd_); }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;

  std::string address() const { return StrCat("127.0.0.1:", port_); }
  // The next connection.
  int Accept() const {
    pollfd ready = {.fd = fd_, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&ready, 1, 300'000), 1);
    return accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  }

 private:
  const int fd_;
  int port_ = 0;
};

// Waits until the client has printed something.
void AwaitOutput(ChildProcess& client) {
  ASSERT_TRUE(Eventually([&] { return !client.out().empty(); })) << client.err();
}

TEST_F(ServerBinary, AnswersEveryCommandAndStopsOnSigterm) {
  auto server = Listening({"--checkpoint", "xl=" + Path("segment")});
  EXPECT_EQ(Mnemon({"health"}), "SERVING\n");
  EXPECT_EQ(Mnemon({"health", "--service", "mnemon.v1.Generation"}), "SERVING\n");
  EXPECT_EQ(Mnemon({"health", "--service", "mnemon.v1.Generation/xl"}), "SERVING\n");
  EXPECT_THAT(Mnemon({"health", "--service", "other"}, 1), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(Mnemon({"models"}), AllOf(HasSubstr("default"), HasSubstr("fast_weights"),
                                        HasSubstr("unlimited"), HasSubstr("xl")));

  const std::vector<std::string> generate = {"generate", "--model", "default",
                                             "--prompt", "abc",     "--max-tokens",
                                             "20",       "--seed",  "7"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), generate.begin(), generate.end());
    return more;
  };
  const std::string text = Mnemon(generate);
  EXPECT_EQ(text.size(), 20u);
  EXPECT_EQ(Mnemon(generate), text);
  const std::string ids = Mnemon(with({"--ids"}));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ','), 19);
  std::ofstream(Path("prompt")) << "abc";
  EXPECT_EQ(Mnemon({"generate", "--model", "default", "--text", Path("prompt"),
                    "--max-tokens", "20", "--seed", "7"}),
            text);
  EXPECT_EQ(Mnemon({"generate", "--model", "default", "--prompt-tokens", "2,3,4",
                    "--max-tokens", "20", "--seed", "7"}),
            text);
  auto stats = Client(with({"--stats"}));
  EXPECT_EQ(stats->Wait(), 0);
  EXPECT_THAT(stats->err(),
              AllOf(HasSubstr("prompt 3 tokens"), HasSubstr("generated 20 tokens"),
                    HasSubstr("seed 7"), HasSubstr("MAX_TOKENS")));

  const std::string lines = Mnemon(with({"--logprobs", "2"}));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 20);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), ':'), 40);
  EXPECT_EQ(Mnemon(with({"--stop-strings", text.substr(5, 2)})),
            text.substr(0, text.find(text.substr(5, 2))));

  EXPECT_EQ(Mnemon({"sessions", "create", "anna", "--model", "default"}), "anna\n");
  const std::vector<std::string> score = {"score", "--session", "anna", "--prompt",
                                          "abcd"};
  EXPECT_THAT(Mnemon(score), HasSubstr("tokens 3  nats/token "));
  EXPECT_THAT(Mnemon({"score", "--model", "xl", "--text", Path("prompt")}),
              HasSubstr("tokens 2  nats/token "));
  EXPECT_THAT(Mnemon({"score", "--model", "xl"}, 2), HasSubstr("--text"));
  EXPECT_THAT(Mnemon({"sessions", "list"}), HasSubstr("anna"));
  EXPECT_EQ(Mnemon({"chat", "--session", "anna", "--max-tokens", "5"}, 0, "abc\n/bye\n")
                .size(),
            6u);
  EXPECT_THAT(Mnemon({"sessions", "list"}), HasSubstr("8"));
  Mnemon({"sessions", "delete", "anna"});
  EXPECT_THAT(Mnemon({"sessions", "delete", "anna"}, 1),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("SESSION_NOT_FOUND")));

  // Among several models it is the one named default.
  EXPECT_EQ(
      Mnemon({"generate", "--prompt", "abc", "--max-tokens", "20", "--seed", "7"}),
      text);
  EXPECT_THAT(Mnemon({"generate", "--model", "none", "--prompt", "abc"}, 1),
              AllOf(HasSubstr("MODEL_NOT_FOUND"),
                    HasSubstr("model 'none' is not loaded; loaded models: ")));
  EXPECT_THAT(Mnemon(with({"--top-p", "2"}), 1), HasSubstr("field sampling.top_p"));
  const std::string unknown = Mnemon({"generate", "--model", "xl", "--prompt", "A"}, 1);
  EXPECT_THAT(unknown, AllOf(HasSubstr("UNKNOWN_CHARACTER"), HasSubstr("prompt.text")));
  EXPECT_EQ(std::count(unknown.begin(), unknown.end(), '\n'), 1) << unknown;
  EXPECT_THAT(Mnemon({"generate", "--prompt", "a", "--prompt-tokens", "1"}, 2),
              HasSubstr("--prompt"));

  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);
  const std::string log = server->err();
  EXPECT_THAT(log, HasSubstr("listening on 127.0.0.1:" + port_));
  EXPECT_THAT(log,
              ContainsRegex("model default: fast_weights, [0-9]+ parameters, fp32, "
                            "vocabulary [0-9]+, context unlimited; [0-9.]+ K?i?B per "
                            "session; [0-9]+ sessions of 1000 tokens fit in memory\n"));
  EXPECT_THAT(log,
              ContainsRegex("model xl: transformer_xl, .* per token and session, of "
                            "the last [0-9]+ tokens; [0-9]+ sessions of"));
  EXPECT_THAT(log,
              HasSubstr(StrCat("playground on http://127.0.0.1:", http_port_, "/, ")));
  const size_t segment = log.find("window: segment");
  EXPECT_NE(segment, std::string::npos);
  EXPECT_EQ(log.find("window: segment", segment + 1), std::string::npos);
  EXPECT_THAT(Mnemon({"health"}, 1), HasSubstr("UNAVAILABLE"));
}

TEST_F(ServerBinary, TellsOfItsStore) {
  auto server = Listening({"--data-dir", Path("stored")});
  Mnemon({"sessions", "create", "anna"});
  Mnemon({"generate", "--session", "anna", "--prompt", "abc", "--max-tokens", "20"});
  const std::string metrics = HttpGet(http_port_, "/metrics").body;
  for (const char* sample :
       {"\nmnemon_store_healthy 1\n", "\nmnemon_journal_tokens_total 23\n",
        "\nmnemon_state_restore_duration_seconds_count{from_tier=\"disk\"} 0\n",
        "\nmnemon_sessions{tier=\"disk\",state=\"idle\"} 0\n"}) {
    EXPECT_THAT(metrics, HasSubstr(sample));
  }
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(kPatience), 0) << server->err();
  EXPECT_THAT(server->err(), HasSubstr("sessions of 1000 tokens fit in "));
}

TEST_F(ServerBinary, HttpTellsOfWorkAndOfDraining) {
  auto server = Listening({"--grace", "600", "--max-tokens", kEndless});
  EXPECT_EQ(HttpGet(http_port_, "/healthz").code, 200);
  EXPECT_EQ(HttpGet(http_port_, "/readyz").code, 200);
  EXPECT_EQ(HttpGet(http_port_, "/readyz/default").code, 200);
  EXPECT_EQ(HttpGet(http_port_, "/readyz/absent").code, 404);
  Mnemon({"sessions", "create", "anna"});
  Mnemon({"generate", "--session", "anna", "--prompt", "abc", "--max-tokens", "20"});
  Mnemon({"generate", "--prompt", "A"}, 1);
  const std::string metrics = HttpGet(http_port_, "/metrics").body;
  for (const char* sample :
       {"\nmnemon_prompt_tokens_total{model=\"default\"} 3",
        "\nmnemon_generation_tokens_total{model=\"default\"} 20",
        "\nmnemon_request_success_total{finished_reason=\"max_tokens\",model="
        "\"default\"} 1",
        "\nmnemon_request_failure_total{model=\"default\",reason=\"validation\"} 1",
        "\nmnemon_session_events_total{event=\"create\"} 1",
        "\nmnemon_inter_token_latency_seconds_count{model=\"default\"} 19",
        "\nmnemon_build_info{", "\nmnemon_session_state_bytes{", "gRPC",
        "\nmnemon_memory_bytes{kind=\"histories\"} ", "\nprocess_threads "}) {
    EXPECT_THAT(metrics, HasSubstr(sample));
  }

  auto client = Client({"generate", "--prompt", "a", "--max-tokens", kEndless});
  AwaitOutput(*client);
  server->Signal(SIGTERM);
  HttpAnswer ready;
  EXPECT_TRUE(Eventually([&] {
    ready = HttpGet(http_port_, "/readyz");
    return ready.code == 503;
  }));
  EXPECT_EQ(ready.body, "default: draining\n");
  EXPECT_EQ(HttpGet(http_port_, "/healthz").code, 200);
  EXPECT_THAT(HttpGet(http_port_, "/metrics").body,
              HasSubstr("mnemon_requests_running{model=\"default\"} 1"));
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(kPatience), 0) << server->err();
  client->Wait();
  EXPECT_THAT(server->err(),
              AllOf(HasSubstr("event=call request_id="),
                    HasSubstr("method=mnemon.v1.Sessions/CreateSession "
                              "status=OK model=default session=anna ms="),
                    HasSubstr("reason=UNKNOWN_CHARACTER model=default"),
                    HasSubstr("prompt_tokens=3 generated_tokens=20")));
  EXPECT_EQ(HttpGet(http_port_, "/healthz").code, 0);
}

// Whose time passes while both are stopped; then both go on, and the stream does.
TEST_F(ServerBinary, NoCallerIsIdleWhileTheServerIsStopped) {
  auto server = Listening({"--idle-timeout", "10", "--max-tokens", kEndless});
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", kEndless});
  AwaitOutput(*client);
  client->Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] {
    return HttpGet(http_port_, "/metrics")
               .body.find("\nmnemon_requests_stalled{model=\"default\"} 1\n") !=
           std::string::npos;
  }));
  server->Signal(SIGSTOP);
  std::this_thread::sleep_for(seconds(11));  // longer than a caller may be idle
  const size_t before = client->out().size();
  client->Signal(SIGCONT);
  server->Signal(SIGCONT);
  // More than can have been on its way.
  while (client->out().size() < before + (1 << 20) && !client->Wait(milliseconds(20))) {
  }
  EXPECT_FALSE(client->Wait(milliseconds(0))) << client->err();
  client->Signal(SIGINT);
  EXPECT_EQ(client->Wait(kPatience), 130);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(kPatience), 0) << server->err();
  EXPECT_THAT(server->err(), testing::Not(HasSubstr("CALLER_IDLE")));
}

TEST_F(ServerBinary, LogsAsJsonFromAChosenLevelOn) {
  auto server = Listening({"--log-format", "json", "--log-level", "debug"});
  Mnemon({"generate", "--prompt", "abc", "--max-tokens", "20"});
  Mnemon({"health"});
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);
  std::istringstream lines(server->err());
  int calls = 0, probes = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(object.is_object()) << line;
    const std::string method = object.value("method", "");
    calls += method == "mnemon.v1.Generation/Generate";
    probes += method == "grpc.health.v1.Health/Check";
  }
  EXPECT_EQ(calls, 1);
  EXPECT_GE(probes, 1);  // the server asks itself once a second, too

  server = Listening({"--log-level", "error"});
  Mnemon({"generate", "--prompt", "abc", "--max-tokens", "20"});
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);
  EXPECT_EQ(server->err(), "");

  // The error that ends a start, too.
  server = Server({"--checkpoint", Path("absent"), "--log-format", "json"});
  EXPECT_EQ(server->Wait(), 1);
  const auto object = nlohmann::json::parse(server->err(), nullptr, false);
  ASSERT_TRUE(object.is_object()) << server->err();
  EXPECT_EQ(object["level"], "error");
}

TEST_F(ServerBinary, HttpCanBeOff) {
  // Set by the flag in two ways, and by the variable.
  for (const std::optional<std::string>& flag :
       {std::optional<std::string>("off"), std::optional<std::string>(""),
        std::optional<std::string>()}) {
    std::filesystem::remove(Path("http"));
    std::vector<std::string> flags = {"--checkpoint", Path("tiny"),       "--listen",
                                      "127.0.0.1:0",  "--http-port-file", Path("http"),
                                      "--port-file",  Path("port")};
    if (flag) flags.insert(flags.end(), {"--http", *flag});
    setenv("MNEMON_SERVER_HTTP", flag ? "" : "off", 1);
    auto server = Server(flags);
    unsetenv("MNEMON_SERVER_HTTP");
    EXPECT_TRUE(Says(*server, "listening"));
    EXPECT_FALSE(std::filesystem::exists(Path("http")));
    EXPECT_THAT(server->err(), Not(HasSubstr("/metrics")));
    server->Signal(SIGTERM);
    EXPECT_EQ(server->Wait(), 0) << server->err();
  }
}

TEST_F(ServerBinary, FlagsBoundWhatACallerMayAsk) {
  auto server =
      Listening({"--max-tokens", "5", "--max-prompt-tokens", "3", "--rate", "0.001"});
  EXPECT_EQ(Mnemon({"generate", "--prompt", "abc", "--max-tokens", "5"}).size(), 5u);
  EXPECT_THAT(Mnemon({"generate", "--prompt", "abc"}, 1),
              AllOf(HasSubstr("RATE_LIMIT"), HasSubstr("retry after")));
  EXPECT_THAT(HttpGet(http_port_, "/metrics").body,
              HasSubstr("\nmnemon_request_failure_total{model=\"default\",reason="
                        "\"overloaded\"} 1\n"));
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);
  server = Listening({"--max-tokens", "5", "--max-prompt-tokens", "3"});
  EXPECT_THAT(Mnemon({"generate", "--prompt", "abc", "--max-tokens", "6"}, 1),
              HasSubstr("stopping.max_tokens"));
  EXPECT_THAT(Mnemon({"generate", "--prompt", "abcd", "--max-tokens", "5"}, 1),
              HasSubstr("prompt.text"));
}

TEST_F(ServerBinary, SigtermLetsRunningStreamsFinish) {
  auto server = Listening({"--grace", "600"});
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", "3000"});
  AwaitOutput(*client);
  server->Signal(SIGTERM);
  EXPECT_EQ(client->Wait(), 0) << client->err();
  EXPECT_EQ(client->out().size(), 3000u);
  EXPECT_EQ(server->Wait(), 0) << server->err();
}

// One runs, one waits for it.
TEST_F(ServerBinary, SigtermLetsPredictionsFinish) {
  auto server = Listening({"--grace", "600", "--checkpoint", "e=" + Path("encoder")});
  std::string tokens = "1";
  const int length = std::getenv("MNEMON_SANITIZED") == nullptr ? 2000 : 1000;
  for (int i = 1; i < length; ++i) tokens += ",2";
  std::vector<std::unique_ptr<ChildProcess>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(Client({"predict", "--model", "e", "--tokens", tokens}));
  }
  const auto both_there = [&] {
    const std::string metrics = HttpGet(http_port_, "/metrics").body;
    const auto has = [&](const std::string& line) {
      return metrics.find("\n" + line + "\n") != std::string::npos;
    };
    return has("mnemon_requests_running{model=\"e\"} 1") &&
           has("mnemon_requests_waiting{model=\"e\"} 1");
  };
  EXPECT_TRUE(Eventually(both_there));
  server->Signal(SIGTERM);
  for (const auto& client : clients) {
    EXPECT_EQ(client->Wait(), 0) << client->err();
    EXPECT_FALSE(client->out().empty());
  }
  EXPECT_EQ(server->Wait(), 0) << server->err();
}

TEST_F(ServerBinary, WhileDrainingNewWorkIsRefused) {
  auto server = Listening({"--grace", "600", "--max-tokens", kEndless});
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", kEndless});
  AwaitOutput(*client);
  server->Signal(SIGINT);
  EXPECT_TRUE(Says(*server, "stopping"));
  EXPECT_EQ(Mnemon({"health"}), "SERVING\n");
  EXPECT_THAT(Mnemon({"health", "--service", "mnemon.v1.Generation"}, 1),
              HasSubstr("NOT_SERVING"));
  EXPECT_THAT(
      Mnemon({"generate", "--prompt", "a"}, 1),
      AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("DRAINING"), HasSubstr("retry after")));
  EXPECT_FALSE(client->Wait(milliseconds(0)).has_value());
  EXPECT_FALSE(server->Wait(milliseconds(0)).has_value());

  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(kPatience), 0) << server->err();
  EXPECT_EQ(client->Wait(), 1);
  EXPECT_THAT(client->err(), HasSubstr("DRAINING"));
}

TEST_F(ServerBinary, AHangUpDrainsAndLostSessionsAreTold) {
  const auto old = signal(SIGHUP, SIG_DFL);  // where the test runs under nohup
  auto server = Listening();
  Mnemon({"sessions", "create", "anna"});
  Mnemon({"sessions", "create", "bert"});
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", "3000"});
  AwaitOutput(*client);
  server->Signal(SIGHUP);
  EXPECT_EQ(client->Wait(), 0) << client->err();
  EXPECT_EQ(server->Wait(), 0);
  EXPECT_THAT(
      server->err(),
      HasSubstr("stopped; lost, since they were in memory alone: 2 sessions\n"));
  // Started by nohup.
  signal(SIGHUP, SIG_IGN);
  server = Listening();
  server->Signal(SIGHUP);
  EXPECT_EQ(Mnemon({"health", "--service", "mnemon.v1.Generation"}), "SERVING\n");
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);
  EXPECT_THAT(server->err(), HasSubstr(" info stopped\n"));
  signal(SIGHUP, old);
}

// `mnemon drain` waits; who stops it does not stop the drain, and a signal goes on with
// it.
TEST_F(ServerBinary, ASignalGoesOnWithADrain) {
  auto server = Listening({"--grace", "0.1", "--max-tokens", kEndless});
  EXPECT_THAT(Mnemon({"status"}), AllOf(HasSubstr("running calls       0\n"),
                                        HasSubstr("queued calls        0 of 256\n"),
                                        HasSubstr("sessions            0 of 1000000\n"),
                                        HasSubstr("draining            no\n")));
  EXPECT_THAT(Mnemon({"drain", "--grace", "-1"}, 2), HasSubstr("--grace"));
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", kEndless});
  AwaitOutput(*client);
  auto drain = Client({"drain", "--grace", "600"});
  EXPECT_TRUE(
      Eventually([&] { return Mnemon({"status"}).find("yes") != std::string::npos; }));
  EXPECT_THAT(Mnemon({"status"}), AllOf(HasSubstr("draining            yes\n"),
                                        HasSubstr("running calls       1\n")));
  EXPECT_THAT(Mnemon({"health", "--service", "mnemon.v1.Generation"}, 1),
              HasSubstr("NOT_SERVING"));
  EXPECT_THAT(Mnemon({"generate", "--prompt", "a"}, 1), HasSubstr("DRAINING"));
  drain->Signal(SIGINT);
  EXPECT_NE(drain->Wait(kPatience), 0);
  EXPECT_FALSE(client->Wait(milliseconds(0)).has_value());
  drain = Client({"drain", "--grace", "600"});
  const std::string asked = "asked for by 127.0.0.1:";
  EXPECT_TRUE(Eventually([&] {
    const std::string log = server->err();
    return log.find(asked) != log.rfind(asked);
  }));
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(kPatience), 0) << server->err();
  EXPECT_EQ(drain->Wait(kPatience), 0) << drain->err();
  EXPECT_EQ(drain->out(), "drained, 0 sessions saved\n");
  EXPECT_EQ(client->Wait(), 1);
  EXPECT_THAT(client->err(), AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("DRAINING")));
  EXPECT_THAT(server->err(), HasSubstr(asked));
}

TEST_F(ServerBinary, ADrainedServerGoesOnUntilASignal) {
  const auto old = signal(SIGHUP, SIG_DFL);  // where the test runs under nohup
  auto server = Listening({"--grace", "600"});
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", "3000"});
  AwaitOutput(*client);
  EXPECT_EQ(Mnemon({"drain"}), "drained, 0 sessions saved\n");
  EXPECT_EQ(client->Wait(), 0) << client->err();
  EXPECT_EQ(client->out().size(), 3000u);
  EXPECT_EQ(Mnemon({"drain", "--grace", "0"}), "drained, 0 sessions saved\n");
  EXPECT_EQ(Mnemon({"health"}), "SERVING\n");
  EXPECT_EQ(HttpGet(http_port_, "/readyz").body, "default: draining\n");
  EXPECT_FALSE(server->Wait(milliseconds(0)).has_value());
  server->Signal(SIGHUP);
  EXPECT_EQ(server->Wait(kPatience), 0) << server->err();
  EXPECT_THAT(server->err(), HasSubstr(" info stopped\n"));
  signal(SIGHUP, old);

  server = Listening({"--admin", "off"});
  EXPECT_THAT(Mnemon({"drain"}, 1), HasSubstr("METHOD_UNIMPLEMENTED"));
  EXPECT_THAT(Mnemon({"status"}, 1), HasSubstr("METHOD_UNIMPLEMENTED"));
}

TEST_F(ServerBinary, StreamsAreEndedAfterTheGrace) {
  auto server = Listening({"--grace", "0.2", "--max-tokens", kEndless});
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", kEndless});
  AwaitOutput(*client);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(kPatience), 0) << server->err();
  EXPECT_EQ(client->Wait(), 1);
  EXPECT_THAT(client->err(), AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("DRAINING")));
}

TEST_F(ServerBinary, CtrlCStopsAClientAndKeepsWhatWasPrinted) {
  auto server = Listening({"--max-tokens", kEndless});
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", kEndless});
  AwaitOutput(*client);
  client->Signal(SIGINT);
  EXPECT_EQ(client->Wait(kPatience), 130);
  EXPECT_FALSE(client->out().empty());
  EXPECT_EQ(client->err(), "");

  auto chat = Client({"chat", "--max-tokens", kEndless}, std::nullopt);
  // It takes signals before it makes its session.
  std::string sessions;
  for (int i = 0; i < 200 && sessions.find("IDLE") == sessions.npos; ++i) {
    sessions = Mnemon({"sessions", "list"});
  }
  EXPECT_THAT(sessions, HasSubstr("IDLE"));
  chat->Signal(SIGINT);
  EXPECT_EQ(chat->Wait(kPatience), 130);
  EXPECT_EQ(chat->err(), "");
  EXPECT_THAT(Mnemon({"sessions", "list"}), Not(HasSubstr("IDLE")));
}

TEST_F(ServerBinary, SigtermEndsAClientWithItsNumber) {
  auto server = Listening({"--max-tokens", kEndless});
  auto client = Client({"generate", "--prompt", "a", "--max-tokens", kEndless});
  AwaitOutput(*client);
  client->Signal(SIGTERM);
  EXPECT_EQ(client->Wait(kPatience), 143);
  EXPECT_EQ(client->err(), "");
  std::ofstream(Path("long")) << std::string(size_t{4} << 20, 'a');
  auto score = Client({"score", "--text", Path("long"), "--logprobs", "0"});
  AwaitOutput(*score);
  score->Signal(SIGTERM);
  EXPECT_EQ(score->Wait(kPatience), 143);
  EXPECT_EQ(score->err(), "");
}

TEST_F(ServerBinary, SignalsEndAClientThatWaitsForTheConnection) {
  const SilentListener listener;
  const std::vector<std::vector<std::string>> commands = {{"generate", "--prompt", "a"},
                                                          {"score", "--prompt", "a"},
                                                          {"predict", "--tokens", "1"},
                                                          {"chat"}};
  for (const int signal : {SIGINT, SIGTERM}) {
    for (std::vector<std::string> command : commands) {
      command.insert(command.begin(), StrCat(MNEMON_BINARY_DIR, "/bin/mnemon"));
      command.insert(command.end(), {"--server", listener.address()});
      ChildProcess client(dir_, command, std::nullopt);
      const int connection = listener.Accept();
      client.Signal(signal);
      // The wait for a connection alone would end after five seconds.
      EXPECT_EQ(client.Wait(kPatience), 128 + signal) << command[1];
      EXPECT_EQ(client.err(), "") << command[1];
      close(connection);
    }
  }
}

TEST_F(ServerBinary, AFullDiskEndsAClientByItsName) {
  auto server = Listening();
  for (const std::string command : {"generate --prompt a --max-tokens 65536",
                                    "score --prompt abc --logprobs 1", "chat"}) {
    ChildProcess client(dir_,
                        {"/bin/sh", "-c",
                         StrCat("exec ", MNEMON_BINARY_DIR, "/bin/mnemon ", command,
                                " --server 127.0.0.1:", port_, " > /dev/full")},
                        "a\n");
    EXPECT_EQ(client.Wait(), 1) << command;
    EXPECT_THAT(client.err(), HasSubstr("mnemon: cannot write standard output"))
        << command;
    EXPECT_THAT(client.err(), Not(HasSubstr("CANCELLED")));
  }
}

TEST_F(ServerBinary, KilledClientFreesItsSession) {
  auto server = Listening({"--max-tokens", kEndless});
  Mnemon({"sessions", "create", "s"});
  auto client =
      Client({"generate", "--session", "s", "--prompt", "a", "--max-tokens", kEndless});
  AwaitOutput(*client);
  EXPECT_THAT(Mnemon({"generate", "--session", "s", "--prompt", "a"}, 1),
              HasSubstr("SESSION_BUSY"));
  client->Signal(SIGKILL);
  EXPECT_EQ(client->Wait(), 128 + SIGKILL);
  std::string list;
  for (int i = 0; i < 100; ++i) {
    list = Mnemon({"sessions", "list"});
    if (list.find("DETACHED") != std::string::npos) break;
  }
  // It had named its call.
  EXPECT_THAT(list, HasSubstr("DETACHED"));
  EXPECT_EQ(Mnemon({"generate", "--session", "s", "--prompt", "a", "--max-tokens", "4"})
                .size(),
            4u);
}

}  // namespace
}  // namespace mnemon
