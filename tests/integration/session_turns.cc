// SPDX-License-Identifier: MIT
#include "tests/integration/session_turns.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/request_id.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using client::Client;
using client::GenerateChunk;
using client::GenerateOptions;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Histories beyond it are taken back, mostly before the context of a model is full.
constexpr int64_t kLongest = 500;
constexpr int kShortestAnswer = 100;
constexpr int kLongestAnswer = 300;
constexpr int kLongestPrompt = 40;

int Draw(Random& random, int64_t least, int64_t most) {
  return static_cast<int>(std::uniform_int_distribution<int64_t>(least, most)(random));
}

double DrawReal(Random& random, double least, double most) {
  return std::uniform_real_distribution(least, most)(random);
}

std::string DrawText(const std::string& letters, int length, Random& random) {
  std::string text;
  for (int i = 0; i < length; ++i) {
    text += letters[Draw(random, 0, static_cast<int64_t>(letters.size()) - 1)];
  }
  return text;
}

GenerateOptions DrawCall(const TestedSession& session, const TestedModel& model,
                         Random& random) {
  GenerateOptions call;
  const int length = Draw(random, 1, kLongestPrompt);
  if (Draw(random, 0, 1) == 0) {
    call.text = DrawText(model.letters, length, random);
  } else {
    for (int i = 0; i < length; ++i) {
      call.tokens.push_back(Draw(random, 0, model.vocab - 1));
    }
  }
  call.sampling.seed = random();
  call.stopping.max_tokens = Draw(random, kShortestAnswer, kLongestAnswer);
  call.sampling.temperature = DrawReal(random, 0.6, 1.4);
  call.sampling.repetition_penalty = DrawReal(random, 1.05, 1.5);
  call.sampling.frequency_penalty = DrawReal(random, 0.1, 0.6);
  call.sampling.penalty_window_tokens = Draw(random, 16, 256);
  if (Draw(random, 0, 2) == 0) call.sampling.presence_penalty = 0.3;
  if (Draw(random, 0, 2) == 0) call.sampling.top_p = 0.95;
  // Where each byte is a token a letter is as rare as two are elsewhere.
  const int rare = model.vocab > 100 ? 1 : 2;
  call.stopping.stop_strings = {DrawText(model.letters, rare, random),
                                DrawText(model.letters, rare + 1, random)};
  call.logprobs.wanted = session.number % 8 >= 6;
  call.logprobs.most_likely = call.logprobs.wanted ? 2 : 0;
  call.resume.on_disconnect = Draw(random, 0, 1) == 0 ? client::OnDisconnect::kPause
                                                      : client::OnDisconnect::kContinue;
  call.request_id = client::NewRequestId();
  call.deadline = kPatience;
  return call;
}

// Makes a call that leaves the same when it is made twice, until the server is there.
template <class Call>
absl::Status Persist(const Call& call) {
  const auto end = steady_clock::now() + kPatience;
  while (true) {
    const absl::Status status = call();
    if (!absl::IsUnavailable(status) || steady_clock::now() > end) return status;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

absl::Status PlayFirst(const Turn& turn, Client& client) {
  switch (turn.first) {
    case Turn::First::kNothing:
      return absl::OkStatus();
    case Turn::First::kRewind:
    case Turn::First::kLoad:
      return Persist([&] {
        return client
            .RewindSession({.id = turn.session,
                            .position = turn.position,
                            .checkpoint = turn.checkpoint})
            .status();
      });
    case Turn::First::kCheckpoint:
      return client
          .CheckpointSession({.id = turn.session, .checkpoint = turn.checkpoint})
          .status();
    case Turn::First::kFork:
      MNEMON_RETURN_IF_ERROR(client
                                 .ForkSession({.parent = turn.session,
                                               .id = turn.generate.session,
                                               .position = turn.position})
                                 .status());
      return client.DeleteSession(
          client::DeleteSessionOptions{.id = turn.session, .allow_missing = true});
  }
  return absl::OkStatus();
}

// One call, over all clients that it takes.
class Listener {
 public:
  Listener(const Turn& turn, const std::string& server, Played& played)
      : turn_(turn), server_(server), played_(played) {}

  absl::Status Run(std::unique_ptr<Client>& client) {
    GenerateOptions call = turn_.generate;
    while (true) {
      auto result = client->Generate(
          call, [&](const GenerateChunk& chunk) { return Take(chunk); });
      if (result.ok()) {
        played_.losses += result->resumes;
        played_.result = *std::move(result);
        return absl::OkStatus();
      }
      if (!std::exchange(ended_, false)) {
        return absl::Status(result.status().code(),
                            StrCat(result.status().message(), ", after ",
                                   played_.tokens.size(), " tokens"));
      }
      client.reset();
      MNEMON_ASSIGN_OR_RETURN(client, ConnectSoon(server_));
      call = {.session = turn_.generate.session};
      call.deadline = kPatience;
      call.request_id = turn_.generate.request_id;
      call.resume.after = Last();
    }
  }

 private:
  int64_t Last() const {
    return played_.tokens.empty()
               ? -1
               : played_.first_index + static_cast<int64_t>(played_.tokens.size()) - 1;
  }

  bool Take(const GenerateChunk& chunk) {
    const size_t after = played_.tokens.size() + chunk.tokens.size();
    const auto clients = static_cast<size_t>(played_.clients);
    if (clients < turn_.client_ends.size() && after >= turn_.client_ends[clients]) {
      ended_ = true;
      ++played_.clients;
      return false;
    }
    if (chunk.resumed_after) played_.resumed = steady_clock::now();
    if (!chunk.tokens.empty() && played_.tokens.empty()) {
      played_.first_index = chunk.first_index;
    }
    played_.tokens.insert(played_.tokens.end(), chunk.tokens.begin(),
                          chunk.tokens.end());
    played_.text += chunk.text;
    played_.logprobs.insert(played_.logprobs.end(), chunk.logprobs.begin(),
                            chunk.logprobs.end());
    // A gap, or tokens that came twice.
    if (!chunk.tokens.empty() &&
        chunk.first_index + static_cast<int64_t>(chunk.tokens.size()) - 1 != Last()) {
      played_.first_index = -1;
    }
    return true;
  }

  const Turn& turn_;
  const std::string& server_;
  Played& played_;
  bool ended_ = false;  // the client, by its turn
};

bool Same(const client::TokenLogprobs& a, const client::TokenLogprobs& b) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  return a.index == b.index && a.token == b.token &&
         bits(a.logprob) == bits(b.logprob) &&
         std::ranges::equal(a.candidates, b.candidates,
                            [&](const auto& one, const auto& other) {
                              return one.token == other.token &&
                                     bits(one.logprob) == bits(other.logprob);
                            });
}

}  // namespace

Turn DrawTurn(const TestedSession& session, const TestedModel& model, int round,
              bool clients_end, Random& random) {
  Turn turn;
  turn.session = session.id;
  turn.generate = DrawCall(session, model, random);
  turn.generate.session = session.id;
  const int drawn = Draw(random, 0, 9);
  if (session.position > kLongest) {
    turn.first = Turn::First::kRewind;
    turn.position = Draw(random, 1, kLongest / 2);
  } else if (session.position == 0 || drawn < 6) {
    turn.first = Turn::First::kNothing;
  } else if (drawn == 6) {
    turn.first = Turn::First::kRewind;
    turn.position = Draw(random, 1, session.position);
  } else if (drawn == 7) {
    turn.first = Turn::First::kCheckpoint;
    turn.checkpoint = StrCat("c", round);
  } else if (drawn == 8 && !session.checkpoint.empty()) {
    turn.first = Turn::First::kLoad;
    turn.checkpoint = session.checkpoint;
  } else {
    turn.first = Turn::First::kFork;
    if (Draw(random, 0, 1) == 0) turn.position = Draw(random, 1, session.position);
    turn.generate.session = StrCat("s", session.number, "-", session.forks + 1);
  }
  if (clients_end && Draw(random, 0, 2) == 0) {
    turn.client_ends.push_back(Draw(random, 1, kLongestAnswer / 2));
    if (Draw(random, 0, 2) == 0) {
      turn.client_ends.push_back(turn.client_ends[0] + Draw(random, 0, 60));
    }
  }
  return turn;
}

absl::StatusOr<std::unique_ptr<Client>> ConnectSoon(const std::string& server) {
  std::unique_ptr<Client> client;
  MNEMON_RETURN_IF_ERROR(Persist([&] {
    client = Client::Connect({.server = server, .call_timeout = kPatience});
    return client->CheckHealth("");
  }));
  return client;
}

absl::StatusOr<Played> Play(const Turn& turn, const std::string& server,
                            std::unique_ptr<Client>& client) {
  Played played;
  MNEMON_RETURN_IF_ERROR(PlayFirst(turn, *client));
  MNEMON_RETURN_IF_ERROR(Listener(turn, server, played).Run(client));
  return played;
}

void Advance(TestedSession& session, const Turn& turn, const Played& played) {
  if (turn.first == Turn::First::kCheckpoint) session.checkpoint = turn.checkpoint;
  if (turn.first == Turn::First::kFork) {
    session.id = turn.generate.session;
    ++session.forks;
    session.checkpoint.clear();  // is the parent's
  }
  session.position = played.result.history_tokens;
}

std::string Difference(const Played& played, const Played& twin) {
  const auto part = [](const auto& is, const auto& should) {
    const auto [one, other] =
        std::mismatch(is.begin(), is.end(), should.begin(), should.end());
    return one == is.end() && other == should.end()
               ? std::string()
               : StrCat(is.size(), ", not ", should.size(),
                        ", the first that differs is ", one - is.begin(), "; ");
  };
  const auto facts = [](const Played& one) {
    const client::GenerateResult& result = one.result;
    return StrCat(result.model, " ", result.finish_reason, " '", result.stop_string,
                  "' seed ", result.seed, ", tokens ", result.resumed_tokens, " + ",
                  result.prompt_tokens, " + ", result.generated_tokens, " = ",
                  result.history_tokens, " from ", one.first_index);
  };
  std::string difference;
  const auto add = [&](const char* what, const std::string& text) {
    if (!text.empty()) difference += StrCat(what, ": ", text);
  };
  add("tokens", part(played.tokens, twin.tokens));
  add("bytes of text", part(played.text, twin.text));
  if (!std::ranges::equal(played.logprobs, twin.logprobs, Same)) {
    difference += "log-probabilities; ";
  }
  if (facts(played) != facts(twin)) difference += StrCat("not ", facts(twin), "; ");
  if (difference.empty()) return "";
  return StrCat(difference, "of ", facts(played), "; ", played.losses, " losses, ",
                played.clients, " clients ended");
}

}  // namespace mnemon
