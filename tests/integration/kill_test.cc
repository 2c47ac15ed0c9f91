// SPDX-License-Identifier: MIT
// Sessions on a server that is killed at random moments, by clients some of which end
// in the middle of a stream: every stream is, token for token, text, log-probabilities
// and facts, that of a server which nobody disturbs.
//
// `scripts/check kill` plays more rounds.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/process/child_process.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/request_id.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/patience.h"
#include "tests/integration/killed_server.h"
#include "tests/integration/session_turns.h"
#include "tests/integration/tested_models.h"

namespace mnemon {
namespace {

using client::Client;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int kSessions = 64;

int64_t Setting(const char* name, int64_t otherwise) {
  const char* const value = getenv(name);
  return value == nullptr ? otherwise : atoll(value);
}

double Milliseconds(nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

class KillTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / StrCat("mnemon-kill-", getpid());
    for (const char* name : {"/killed", "/twin"}) {
      std::filesystem::create_directories(directory_ + name);
    }
    models_ = WriteTestedModels(directory_);
    ASSERT_FALSE(HasFailure());
    std::vector<std::string> flags = {"--threads", "1", "--sessions", "64"};
    for (const TestedModel& model : models_) {
      flags.insert(flags.end(), {"--checkpoint", StrCat(model.name, "=", model.path)});
    }
    twin_.emplace(directory_ + "/twin", flags);
    flags.insert(flags.end(), {"--data-dir", directory_ + "/data"});
    killed_.emplace(directory_ + "/killed", flags);
    for (auto* const server : {&*twin_, &*killed_}) {
      const auto started = server->Start();
      ASSERT_TRUE(started.ok()) << started.status();
    }
  }

  void TearDown() override {
    if (HasFailure() && killed_) std::printf("%s", killed_->log().c_str());
    killed_.reset();
    twin_.reset();
    std::filesystem::remove_all(directory_);
  }

  const TestedModel& ModelOf(int session) const {
    return models_[static_cast<size_t>(session) % models_.size()];
  }

  // Half of each model's sessions have a durability, half of them the other one.
  void CreateSessions() {
    const auto killed = ConnectSoon(killed_->address());
    const auto twin = ConnectSoon(twin_->address());
    ASSERT_TRUE(killed.ok() && twin.ok()) << killed.status() << twin.status();
    for (int i = 0; i < kSessions; ++i) {
      sessions_.push_back({.id = StrCat("s", i), .number = i});
      client::CreateSessionOptions options{.id = sessions_.back().id,
                                           .model = ModelOf(i).name};
      ASSERT_TRUE((*twin)->CreateSession(options).ok());
      const size_t of_model = static_cast<size_t>(i) / models_.size();
      options.durability =
          of_model % 2 == 0 ? client::Durability::kTurn : client::Durability::kAlways;
      const auto made = (*killed)->CreateSession(options);
      ASSERT_TRUE(made.ok()) << made.status();
    }
    for (int i = 0; i < kSessions; ++i) {
      for (const auto& [server, clients] :
           {std::pair{&*killed_, &clients_}, {&*twin_, &twin_clients_}}) {
        auto client = ConnectSoon(server->address());
        ASSERT_TRUE(client.ok()) << client.status();
        clients->push_back(*std::move(client));
      }
    }
  }

  using Plays = std::vector<std::future<absl::StatusOr<Played>>>;

  // One thread for each session.
  static Plays Begin(const std::vector<Turn>& turns, const KilledServer& server,
                     std::vector<std::unique_ptr<Client>>& clients) {
    Plays plays;
    for (size_t i = 0; i < turns.size(); ++i) {
      plays.push_back(std::async(std::launch::async,
                                 [&turn = turns[i], &server, &client = clients[i]] {
                                   return Play(turn, server.address(), client);
                                 }));
    }
    return plays;
  }

  static void WaitUntil(const Plays& plays, steady_clock::time_point time) {
    for (const auto& play : plays) {
      if (play.wait_until(time) == std::future_status::timeout) return;
    }
  }

  // Ends the server once `delay` has passed or all is played, and starts it again.
  void KillAfter(nanoseconds delay, const Plays& plays) {
    WaitUntil(plays, steady_clock::now() + delay);
    killed_->Kill();
    begin_ = steady_clock::now();
    const auto started = killed_->Start();
    ASSERT_TRUE(started.ok()) << started.status();
    EXPECT_LT(*started, kPatience);
    slowest_start_ = std::max(slowest_start_, *started);
    ++kills_;
    std::printf("killed after %.0f ms; served again after %.0f ms\n",
                Milliseconds(delay), Milliseconds(*started));
  }

  void PlayRound(int round, Random& random) {
    std::vector<Turn> turns;
    for (const TestedSession& session : sessions_) {
      turns.push_back(
          DrawTurn(session, ModelOf(session.number), round, round % 2 == 1, random));
    }
    std::vector<Turn> whole = turns;
    for (Turn& turn : whole) turn.client_ends.clear();
    const auto begin = steady_clock::now();
    Plays undisturbed = Begin(whole, *twin_, twin_clients_);
    std::vector<absl::StatusOr<Played>> expected;
    for (auto& play : undisturbed) expected.push_back(play.get());
    const nanoseconds expected_time = steady_clock::now() - begin;

    std::printf("round %d of %.0f ms: ", round, Milliseconds(expected_time));
    const auto share = [&](double most) {
      const double drawn = std::uniform_real_distribution(0.0, most)(random);
      return std::chrono::duration_cast<nanoseconds>(expected_time * drawn);
    };
    Plays disturbed = Begin(turns, *killed_, clients_);
    ASSERT_NO_FATAL_FAILURE(KillAfter(share(1), disturbed));
    // It may be killed while it, or its clients, go on from the first time.
    if (round % 4 == 3) {
      ASSERT_NO_FATAL_FAILURE(KillAfter(share(0.3), disturbed));
    }
    nanoseconds resumed{};
    int64_t losses = 0, clients = 0;
    for (size_t i = 0; i < turns.size(); ++i) {
      const absl::StatusOr<Played> played = disturbed[i].get();
      const std::string which =
          StrCat(turns[i].generate.session, " of ", ModelOf(static_cast<int>(i)).name,
                 ", first ", static_cast<int>(turns[i].first));
      ASSERT_TRUE(expected[i].ok()) << which << ": " << expected[i].status();
      if (!played.ok()) {
        ADD_FAILURE() << which << ": " << played.status();
        continue;
      }
      EXPECT_EQ(Difference(*played, *expected[i]), "") << which;
      losses += played->losses;
      clients += played->clients;
      if (played->resumed) resumed = std::max(resumed, *played->resumed - begin_);
      Advance(sessions_[i], turns[i], *expected[i]);
    }
    EXPECT_LT(resumed, 2 * kPatience);
    slowest_resume_ = std::max(slowest_resume_, resumed);
    losses_ += losses;
    clients_ended_ += clients;
    std::printf(
        "%lld streams lost, the last went on after %.0f ms; %lld clients ended\n",
        static_cast<long long>(losses), Milliseconds(resumed),
        static_cast<long long>(clients));
    std::fflush(stdout);
  }

  // What the server has of a session is what its history gives.
  void Verify(const TestedSession& session, Client& client) {
    const auto found = client.VerifySession(session.id, /*replay=*/true);
    ASSERT_TRUE(found.ok()) << session.id << ": " << found.status();
    EXPECT_TRUE(found->stored_form_valid) << session.id;
    EXPECT_TRUE(found->replay_equal.value_or(false))
        << session.id << ": " << found->first_difference;
    EXPECT_EQ(found->position, session.position) << session.id;
  }

  std::string directory_;
  std::vector<TestedModel> models_;
  std::optional<KilledServer> killed_, twin_;
  std::vector<TestedSession> sessions_;
  std::vector<std::unique_ptr<Client>> clients_, twin_clients_;

  steady_clock::time_point begin_;  // of the newest start
  nanoseconds slowest_start_{}, slowest_resume_{};
  int64_t kills_ = 0, losses_ = 0, clients_ended_ = 0;
};

TEST_F(KillTest, StreamsAreThoseOfAnUndisturbedTwin) {
  const int64_t rounds = Setting("MNEMON_KILL_ROUNDS", 5);
  const int64_t seed = Setting("MNEMON_KILL_SEED", 1);
  std::printf("%lld rounds of seed %lld\n", static_cast<long long>(rounds),
              static_cast<long long>(seed));
  ASSERT_NO_FATAL_FAILURE(CreateSessions());
  Random random(static_cast<uint64_t>(seed));
  for (int round = 0; round < rounds; ++round) {
    ASSERT_NO_FATAL_FAILURE(PlayRound(round, random));
    ASSERT_FALSE(HasFailure()) << "in round " << round << " of seed " << seed;
    const size_t some = random() % kSessions;
    Verify(sessions_[some], *clients_[some]);
  }
  for (const TestedSession& session : sessions_) Verify(session, *clients_[0]);
  EXPECT_GT(losses_, 0);
  EXPECT_TRUE(rounds < 2 || clients_ended_ > 0);
  std::printf(
      "%lld kills, %lld streams lost, %lld clients ended; served again after %.0f ms "
      "at "
      "most, all streams went on after %.0f ms at most\n",
      static_cast<long long>(kills_), static_cast<long long>(losses_),
      static_cast<long long>(clients_ended_), Milliseconds(slowest_start_),
      Milliseconds(slowest_resume_));
}

std::vector<int32_t> ParseIds(const std::string& text) {
  std::vector<int32_t> ids;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) ids.push_back(stoi(word));
  return ids;
}

TEST_F(KillTest, AnotherProcessGoesOnWithTheStreamOfAKilledOne) {
  constexpr int kPrompt = 3, kTokens = 6000;
  const auto twin = ConnectSoon(twin_->address());
  const auto killed = ConnectSoon(killed_->address());
  ASSERT_TRUE(twin.ok() && killed.ok());
  const std::string model = models_[1].name;
  client::GenerateOptions call;
  call.model = model;
  call.tokens = {1, 2, 3};
  call.stopping.max_tokens = kTokens;
  call.sampling.seed = 11;
  call.sampling.repetition_penalty = 1.25;
  std::vector<int32_t> expected;
  const auto undisturbed = (*twin)->Generate(call, [&](const auto& chunk) {
    expected.insert(expected.end(), chunk.tokens.begin(), chunk.tokens.end());
    return true;
  });
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
  ASSERT_EQ(expected.size(), static_cast<size_t>(kTokens));

  ASSERT_TRUE((*killed)->CreateSession("anna", model).ok());
  const std::vector<std::string> generate = {StrCat(MNEMON_BINARY_DIR, "/bin/mnemon"),
                                             "generate",
                                             "--server",
                                             killed_->address(),
                                             "--ids",
                                             "--session",
                                             "anna",
                                             "--request-id",
                                             client::NewRequestId()};
  std::vector<std::string> begun = generate, resumed = generate;
  begun.insert(begun.end(), {"--prompt-tokens", "1,2,3", "--seed", "11", "--max-tokens",
                             StrCat(kTokens), "--repetition-penalty", "1.25"});
  std::string ids;
  {
    ChildProcess process(directory_, begun);
    const auto end = steady_clock::now() + kPatience;
    while (process.out().empty() && steady_clock::now() < end) {
      ASSERT_EQ(process.Wait(milliseconds(1)), std::nullopt) << process.err();
    }
    process.Signal(SIGKILL);
    process.Wait();
    ids = process.out();
  }
  std::vector<int32_t> tokens = ParseIds(ids);
  ASSERT_THAT(tokens, testing::Not(testing::IsEmpty()));
  ASSERT_LT(tokens.size(), expected.size());
  killed_->Kill();
  const auto started = killed_->Start();
  ASSERT_TRUE(started.ok()) << started.status();
  resumed.insert(
      resumed.end(),
      {"--resume-after", StrCat(kPrompt + static_cast<int64_t>(tokens.size()) - 1)});
  const auto rest = RunToEnd(directory_, resumed, kPatience);
  ASSERT_TRUE(rest.ok()) << rest.status();
  for (const int32_t token : ParseIds(*rest)) tokens.push_back(token);
  EXPECT_EQ(tokens, expected);
}

}  // namespace
}  // namespace mnemon
