// SPDX-License-Identifier: MIT
// Streams that together want twice the available state, from clients with gRPC's
// standard retry policy. A session's history must match its client's knowledge: a call
// that ends with an error before its first token leaves it unchanged, a later end keeps
// the prompt and the delivered tokens.
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/clients.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct RetryShape {
  int streams;
  int64_t prompt_tokens;
  int64_t new_tokens;
  int turns;
  double turn;           // seconds during which clients begin calls
  double deadline;       // of a call, seconds
  int64_t state_tokens;  // capacity of the server
};

constexpr RetryShape kRetryFull = {50, 512, 64, 3, 20, 60, 14'400};
// Prompts of several chunks, so that some run out of room in the middle. A server takes
// at least room for one session at its context limit.
constexpr RetryShape kRetryQuick = {50, 384, 32, 1, 2, 10, 10'240};
constexpr int64_t kRetryTokenBytes = 4096;  // of state, causal XS
constexpr int kProbes = 8;                  // sessions whose history is scored
constexpr std::chrono::milliseconds kRetryRefused{200};
constexpr std::chrono::milliseconds kPoll{10};
constexpr double kLogprobTolerance = 1e-3;

// Knowledge of one session's client. Used by that client's thread.
struct Known {
  std::string id;
  std::vector<int32_t> history;
  bool deleted = false;
};

struct Tally {
  std::map<std::string, double> ends;
  int64_t ok = 0;
  int64_t untyped = 0;
  int64_t prompt_moved = 0;  // prompts that did not start at the history's end
  int64_t wrong_length = 0;
  int64_t retry_after_token = 0;
};

// Tokens in the session's history once no call runs on it.
absl::StatusOr<int64_t> LengthAtRest(client::Client& client, const std::string& id) {
  const TimePoint begin = SteadyClock::now();
  while (SteadyClock::now() - begin < kHangs) {
    MNEMON_ASSIGN_OR_RETURN(const client::Session session, client.GetSession(id));
    if (session.state == "IDLE") return session.position;
    std::this_thread::sleep_for(kPoll);
  }
  return absl::InternalError(id + " does not come to rest");
}

absl::Status Delete(client::Client& client, Known& known) {
  known.deleted = true;
  return client.DeleteSession(known.id);
}

absl::StatusOr<std::vector<Known>> CreateSessions(client::Client& client, int count) {
  std::vector<Known> all;
  for (int i = 0; i < count; ++i) {
    all.push_back({.id = StrCat("s", i), .history = {}});
    MNEMON_RETURN_IF_ERROR(client.CreateSession(all.back().id, "m").status());
  }
  return all;
}

// Log-probabilities of `tokens` after `session`, which is not changed, or after nothing
// if it is empty.
absl::StatusOr<std::vector<float>> ScoreTokens(client::Client& client,
                                               const std::string& session,
                                               const std::vector<int32_t>& tokens) {
  std::vector<float> logprobs;
  MNEMON_RETURN_IF_ERROR(
      client
          .Score({.model = session.empty() ? "m" : "",
                  .session = session,
                  .tokens = tokens},
                 [&](const std::vector<client::TokenLogprobs>& scored) {
                   for (const auto& one : scored) logprobs.push_back(one.logprob);
                   return true;
                 })
          .status());
  return logprobs;
}

// Updates the client's knowledge with the result of one call.
void Apply(const CallRecord& call, const v1::GenerateRequest& request, Known& known,
           Tally& tally) {
  const auto length = static_cast<int64_t>(known.history.size());
  if (call.prompt_index >= 0 && call.prompt_index != length) ++tally.prompt_moved;
  if (call.ok()) {
    ++tally.ok;
  } else {
    const std::optional<ErrorDetail> detail = GetErrorDetail(call.trace.status);
    if (call.reason().empty()) ++tally.untyped;
    if (!call.tokens.empty() && detail && detail->retry_after) {
      ++tally.retry_after_token;
    }
  }
  ++tally.ends[call.outcome()];
  if (!call.ok() && call.tokens.empty()) return;
  const auto& prompt = request.prompt().tokens().ids();
  known.history.insert(known.history.end(), prompt.begin(), prompt.end());
  known.history.insert(known.history.end(), call.tokens.begin(), call.tokens.end());
}

// One client: calls until one ends OK, or after a token, or the turn's time is over. A
// client whose stream breaks gives its session up.
absl::Status RunClient(const RetryShape& shape, const v1::GenerateRequest& request,
                       Connection& connection, client::Client& client, Known& known,
                       Tally& tally, std::mutex& mutex) {
  const TimePoint end =
      SteadyClock::now() +
      std::chrono::duration_cast<SteadyClock::duration>(Seconds(shape.turn));
  while (SteadyClock::now() < end) {
    Calls calls;
    calls.Start(connection, request, {.deadline = Seconds(shape.deadline)});
    calls.Wait(Seconds(shape.deadline + 5));
    const std::vector<CallRecord> records = calls.Take();
    if (records.size() != 1) return absl::InternalError("a call outlived its deadline");
    const CallRecord& call = records[0];
    MNEMON_ASSIGN_OR_RETURN(const int64_t length, LengthAtRest(client, known.id));
    {
      std::lock_guard lock(mutex);
      Apply(call, request, known, tally);
      if (length != static_cast<int64_t>(known.history.size())) ++tally.wrong_length;
    }
    if (call.ok()) return absl::OkStatus();
    if (!call.tokens.empty()) return Delete(client, known);
    std::this_thread::sleep_for(kRetryRefused);
  }
  return absl::OkStatus();
}

absl::Status RunTurn(const RetryShape& shape, int turn, Connections& connections,
                     Clients& clients, std::vector<Known>& sessions, Tally& tally) {
  std::mutex mutex;
  absl::Status failed;
  std::vector<std::thread> callers;
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (sessions[i].deleted) continue;
    callers.emplace_back([&, i] {
      v1::GenerateRequest request =
          MakeRequest("", shape.prompt_tokens, shape.new_tokens,
                      1000 * static_cast<uint64_t>(turn) + i);
      request.set_session("sessions/" + sessions[i].id);
      const absl::Status status = RunClient(shape, request, connections.at(i),
                                            clients.at(i), sessions[i], tally, mutex);
      std::lock_guard lock(mutex);
      if (failed.ok()) failed = status;
    });
  }
  for (std::thread& caller : callers) caller.join();
  return failed;
}

// Sessions whose next tokens have other log-probabilities than the same tokens after
// the history that the client knows.
absl::StatusOr<int64_t> CountWrongContents(client::Client& client,
                                           std::vector<Known>& sessions) {
  std::vector<Known*> kept;
  for (Known& session : sessions) {
    if (session.deleted) continue;
    if (static_cast<int>(kept.size()) < kProbes && !session.history.empty()) {
      kept.push_back(&session);
    } else {
      // Makes room for the copies to score.
      MNEMON_RETURN_IF_ERROR(Delete(client, session));
    }
  }
  int64_t wrong = 0;
  for (const Known* session : kept) {
    const std::vector<int32_t> probe = {1, 2, 3, 4, 5, 6, 7};
    std::vector<int32_t> whole = session->history;
    whole.insert(whole.end(), probe.begin(), probe.end());
    MNEMON_ASSIGN_OR_RETURN(const std::vector<float> after,
                            ScoreTokens(client, session->id, probe));
    MNEMON_ASSIGN_OR_RETURN(const std::vector<float> fresh,
                            ScoreTokens(client, "", whole));
    bool equal = after.size() == probe.size() && fresh.size() + 1 == whole.size();
    for (size_t i = 0; equal && i < probe.size(); ++i) {
      const float expected = fresh[fresh.size() - probe.size() + i];
      equal = std::abs(after[i] - expected) < kLogprobTolerance;
    }
    wrong += equal ? 0 : 1;
  }
  return wrong;
}

}  // namespace

absl::Status RunRetry(const ScenarioOptions& options, BarResults& results) {
  RetryShape shape = options.quick ? kRetryQuick : kRetryFull;
  shape.deadline = results.Patience(shape.deadline);
  MNEMON_ASSIGN_OR_RETURN(const std::string model, Checkpoint(options, "causal", "XS"));
  MNEMON_ASSIGN_OR_RETURN(
      const auto server,
      StartServer(options, {"--checkpoint", "m=" + model, "--state-bytes",
                            StrCat(shape.state_tokens * kRetryTokenBytes)}));
  Connections connections(server->port(), 4, {.retries = true});
  Clients clients(server->port(), 4);
  MNEMON_ASSIGN_OR_RETURN(std::vector<Known> sessions,
                          CreateSessions(clients.at(0), shape.streams));
  Tally tally;
  const int64_t whole = shape.prompt_tokens + shape.new_tokens;
  const double room = static_cast<double>(shape.state_tokens / whole);
  int64_t first_turn = 0;
  for (int turn = 0; turn < shape.turns; ++turn) {
    MNEMON_RETURN_IF_ERROR(RunTurn(shape, turn, connections, clients, sessions, tally));
    if (turn == 0) first_turn = tally.ok;
    // Half of the clients end their conversations, so that others can continue.
    for (size_t i = turn % 2; turn + 1 < shape.turns && i < sessions.size(); i += 2) {
      if (!sessions[i].deleted) {
        MNEMON_RETURN_IF_ERROR(Delete(clients.at(0), sessions[i]));
      }
    }
  }
  results.ShareAtLeast("first turn: streams that ended OK, share of those with room",
                       static_cast<double>(first_turn) / room, 0.5);
  results.Exactly("calls that ended without a reason",
                  static_cast<double>(tally.untyped), 0, "");
  results.Exactly("prompts that began elsewhere than known",
                  static_cast<double>(tally.prompt_moved), 0, "");
  results.Exactly("sessions of another length than known",
                  static_cast<double>(tally.wrong_length), 0, "");
  results.Exactly("RetryInfo after a token",
                  static_cast<double>(tally.retry_after_token), 0, "");
  MNEMON_ASSIGN_OR_RETURN(const int64_t wrong,
                          CountWrongContents(clients.at(0), sessions));
  results.Exactly("sessions with another content than known",
                  static_cast<double>(wrong), 0, "");
  for (const auto& [how, count] : tally.ends) {
    results.Note("calls ended " + how, count, "");
  }
  return absl::OkStatus();
}

}  // namespace mnemon::serving
