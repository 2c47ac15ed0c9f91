// SPDX-License-Identifier: MIT
// Everything that clients do, right and wrong, for a long time, half of it on durable
// sessions that others delete, fork and rewind at the same time: memory, descriptors
// and threads do not grow, every call is answered, and no answer is wrong.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/data_folder.h"
#include "bench/serving/process_use.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/traffic.h"
#include "client/status.h"

namespace mnemon::serving {
namespace {

constexpr int kSoakers = 6;  // threads
constexpr double kSoak = 600;
constexpr double kQuickSoak = 10;
constexpr double kSampleTime = 0.5;
constexpr int64_t kQuickCalls = 1000;
constexpr int64_t kSampleCalls = 20;
constexpr double kMostGrowth = 20;  // megabytes from the second quarter to the last
constexpr double kMostMore = 8;     // descriptors, threads
constexpr int kNames = 32;          // of sessions
constexpr int kPlaces = 4;          // of checkpoints of each
constexpr std::chrono::seconds kAnswered{120};  // far more than any call takes

struct Outcome {
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> wrong{0};       // tokens that differ from the same earlier call
  std::atomic<int64_t> unexpected{0};  // statuses that no such call may have
  std::atomic<int64_t> unanswered{0};

  std::mutex mutex;
  std::string first;  // of those statuses; guarded by mutex
};

// A client with a new connection for each call.
class Soaker {
 public:
  Soaker(int port, uint32_t seed, const std::vector<int32_t>& right, Outcome& outcome)
      : port_(port), random_(seed), right_(right), outcome_(outcome) {}

  void Call() {
    ++outcome_.calls;
    const Connection connection(port_, {});
    if (random_() % 2 == 0) return OnASession(connection);
    switch (random_() % 6) {
      case 0:
        return Cancel(connection);
      case 1:
        return Score(connection);
      case 2:
        return Predict(connection);
      case 3:
        return Wrong(connection);
      default:
        return Compared(connection);
    }
  }

 private:
  using Code = grpc::StatusCode;

  struct Limited : grpc::ClientContext {
    Limited() { set_deadline(std::chrono::system_clock::now() + kAnswered); }
  };

  void Expect(const grpc::Status& status, const std::set<Code>& expected) {
    if (expected.contains(status.error_code())) return;
    ++(status.error_code() == Code::DEADLINE_EXCEEDED ? outcome_.unanswered
                                                      : outcome_.unexpected);
    std::lock_guard lock(outcome_.mutex);
    if (outcome_.first.empty()) {
      outcome_.first = StrCat("code ", static_cast<int>(status.error_code()), ": ",
                              status.error_message());
    }
  }

  // Reads at most `most` messages, then cancels.
  grpc::Status Read(const Connection& connection, const v1::GenerateRequest& request,
                    int most, std::vector<int32_t>& tokens) {
    Limited context;
    auto reader = connection.generation->Generate(&context, request);
    v1::GenerateResponse message;
    while (most-- > 0 && reader->Read(&message)) {
      tokens.insert(tokens.end(), message.tokens().begin(), message.tokens().end());
    }
    if (most < 0) context.TryCancel();
    return reader->Finish();
  }

  void Compared(const Connection& connection) {
    std::vector<int32_t> tokens;
    const grpc::Status status =
        Read(connection, MakeRequest("", 8, 64, 7), 1000, tokens);
    Expect(status, {Code::OK});
    if (status.ok() && tokens != right_) ++outcome_.wrong;
  }

  void Cancel(const Connection& connection) {
    std::vector<int32_t> tokens;
    const int most = static_cast<int>(random_() % 4);
    Expect(Read(connection, MakeRequest("", 100, 5000, random_()), most, tokens),
           {Code::CANCELLED, Code::OK});
  }

  void Wrong(const Connection& connection) {
    std::vector<int32_t> tokens;
    v1::GenerateRequest request = MakeRequest("", 3, 3, 1);
    switch (random_() % 3) {
      case 0:
        request.mutable_prompt()->mutable_tokens()->add_ids(-1);
        break;
      case 1:
        request.mutable_sampling()->set_top_p(7);
        break;
      default:
        request.set_model("models/nobody");
    }
    Expect(Read(connection, request, 10, tokens),
           {Code::INVALID_ARGUMENT, Code::NOT_FOUND});
  }

  void Score(const Connection& connection) {
    Expect(Score(connection, v1::ScoreRequest::Open()), {Code::OK});
  }

  grpc::Status Score(const Connection& connection, const v1::ScoreRequest::Open& open) {
    Limited context;
    auto stream = connection.generation->Score(&context);
    v1::ScoreRequest request;
    *request.mutable_open() = open;
    stream->Write(request);
    *request.mutable_part() = MakeRequest("", 50, 1, random_()).prompt();
    stream->Write(request);
    stream->WritesDone();
    for (v1::ScoreResponse response; stream->Read(&response);) continue;
    return stream->Finish();
  }

  // No model here is an encoder.
  void Predict(const Connection& connection) {
    Limited context;
    v1::PredictRequest request;
    request.add_sequences()->add_ids(1);
    v1::PredictResponse response;
    Expect(connection.generation->Predict(&context, request, &response),
           {Code::UNIMPLEMENTED, Code::FAILED_PRECONDITION, Code::INVALID_ARGUMENT});
  }

  // Effects of other clients on it at the same time: it is gone, exists already, is
  // held by a call, is shorter.
  static inline const std::set<Code> kBesideOthers = {
      Code::OK,      Code::NOT_FOUND, Code::ALREADY_EXISTS,
      Code::ABORTED, Code::CANCELLED, Code::OUT_OF_RANGE};

  template <class Stub, class Request, class Response>
  grpc::Status Ask(Stub& stub,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                Response*),
                   const std::type_identity_t<Request>& request, Response& response) {
    Limited context;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    // Only as many exports and proofs may run at once as there are places.
    const auto detail = GetErrorDetail(client::FromGrpcStatus(status));
    const bool full = detail && (detail->reason == "TRANSFER_LIMIT" ||
                                 detail->reason == "CHECKPOINT_LIMIT");
    if (!full) Expect(status, kBesideOthers);
    return status;
  }

  void OnASession(const Connection& connection) {
    using Stub = v1::Sessions::Stub;
    Stub& sessions = *connection.sessions;
    const std::string id = StrCat("s", random_() % kNames);
    const std::string name = "sessions/" + id;
    const std::string place = StrCat("p", random_() % kPlaces);
    v1::Session session;
    google::protobuf::Empty nothing;
    switch (random_() % 10) {
      case 0: {
        v1::DeleteSessionRequest request;
        request.set_name(name);
        Ask(sessions, &Stub::DeleteSession, request, nothing);
        return;
      }
      case 1: {
        v1::CheckpointSessionRequest request;
        request.set_name(name);
        request.set_checkpoint_id(place);
        v1::Checkpoint made;
        Ask(sessions, &Stub::CheckpointSession, request, made);
        return;
      }
      case 2: {
        v1::ForkSessionRequest request;
        request.set_name(name);
        request.set_session_id(StrCat("s", random_() % kNames));
        Ask(sessions, &Stub::ForkSession, request, session);
        return;
      }
      case 3:
      case 4: {
        v1::RewindSessionRequest request;
        request.set_name(name);
        if (random_() % 2 == 0) {
          request.set_checkpoint_id(place);
        } else {
          request.set_token_count(static_cast<int64_t>(random_() % 100));
        }
        Ask(sessions, &Stub::RewindSession, request, session);
        return;
      }
      case 5: {
        v1::ScoreRequest::Open open;
        open.set_session(name);
        open.set_commit(true);
        Expect(Score(connection, open), kBesideOthers);
        return;
      }
      case 6: {
        v1::VerifySessionRequest request;
        request.set_name(name);
        request.set_replay(true);
        v1::VerifySessionResponse proof;
        const grpc::Status status = Ask(sessions, &Stub::VerifySession, request, proof);
        if (status.ok() && !(proof.stored_form_valid() && proof.replay_equal())) {
          ++outcome_.wrong;
        }
        return;
      }
      default:
        Turn(connection, id);
    }
  }

  void Turn(const Connection& connection, const std::string& id) {
    using Stub = v1::Sessions::Stub;
    constexpr v1::Session::Durability kLevels[] = {v1::Session::NONE, v1::Session::TURN,
                                                   v1::Session::ALWAYS};
    v1::CreateSessionRequest creation;
    creation.set_session_id(id);
    creation.mutable_session()->set_durability(kLevels[random_() % 3]);
    v1::Session session;
    Ask(*connection.sessions, &Stub::CreateSession, creation, session);
    std::vector<int32_t> tokens;
    v1::GenerateRequest request = MakeRequest("", 4, 20, random_());
    request.set_session("sessions/" + id);
    Expect(Read(connection, request, 1000, tokens), kBesideOthers);
  }

  const int port_;
  std::minstd_rand random_;
  const std::vector<int32_t>& right_;
  Outcome& outcome_;
};

// Samples of the process during `seconds`.
std::vector<ProcessUse> Sample(pid_t pid, double seconds) {
  std::vector<ProcessUse> samples;
  const TimePoint begin = SteadyClock::now();
  while (Seconds(SteadyClock::now() - begin).count() < seconds) {
    samples.push_back(UseOf(pid));
    Pass(kSampleTime);
  }
  return samples;
}

// The same while a number of calls is made, whose time depends on the machine.
std::vector<ProcessUse> SampleCalls(pid_t pid, int64_t count, const Outcome& outcome) {
  std::vector<ProcessUse> samples;
  for (int64_t due = 0; due < count; due += kSampleCalls) {
    while (outcome.calls < due) Pass(0.01);
    samples.push_back(UseOf(pid));
  }
  return samples;
}

// Difference between the maximum of the last quarter and the maximum of the second: the
// first fills what the process keeps for good.
template <class Figure>
double Growth(const std::vector<ProcessUse>& samples, Figure figure) {
  const size_t quarter = samples.size() / 4;
  const auto greatest = [&](size_t from, size_t to) {
    double most = 0;
    for (size_t i = from; i < to; ++i)
      most = std::max<double>(most, figure(samples[i]));
    return most;
  };
  return greatest(3 * quarter, samples.size()) - greatest(quarter, 2 * quarter);
}

}  // namespace

absl::Status RunSoak(const ScenarioOptions& options, BarResults& results) {
  const double seconds = options.seconds > 0 ? options.seconds
                         : options.quick     ? kQuickSoak
                                             : kSoak;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  const DataFolder data(options.directory + "/data-soak");
  MNEMON_ASSIGN_OR_RETURN(
      const auto server,
      StartServer(options, {"--checkpoint", model, "--data-dir", data.path()}));
  std::vector<int32_t> right;
  {
    Connection connection(server->port(), {});
    Calls calls;
    calls.Start(connection, MakeRequest("", 8, 64, 7), {.deadline = kHangs});
    calls.Wait(kHangs);
    right = calls.Take()[0].tokens;
  }
  Outcome outcome;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kSoakers; ++i) {
    threads.emplace_back([&, i] {
      Soaker soaker(server->port(), static_cast<uint32_t>(i + 1), right, outcome);
      while (!stop) soaker.Call();
    });
  }
  const std::vector<ProcessUse> samples =
      results.timed() ? Sample(server->pid(), seconds)
                      : SampleCalls(server->pid(), kQuickCalls, outcome);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  results.Note("calls", static_cast<double>(outcome.calls), "");
  results.Exactly("calls with wrong tokens", static_cast<double>(outcome.wrong), 0, "");
  results.Exactly("calls with a status that they may not have",
                  static_cast<double>(outcome.unexpected), 0, "");
  results.Exactly("calls without an answer", static_cast<double>(outcome.unanswered), 0,
                  "");
  if (!outcome.first.empty()) LogError("the first of them: " + outcome.first);
  results.Note("resident at the end", samples.back().megabytes, "MB");
  results.AtMost("resident, growth from the second quarter to the last",
                 Growth(samples, [](const ProcessUse& s) { return s.megabytes; }),
                 kMostGrowth, "MB");
  results.AtMost("descriptors, growth",
                 Growth(samples, [](const ProcessUse& s) { return s.descriptors; }),
                 kMostMore, "");
  results.AtMost("threads, growth",
                 Growth(samples, [](const ProcessUse& s) { return s.threads; }),
                 kMostMore, "");
  const TimePoint term = SteadyClock::now();
  const std::optional<int> code = server->Stop(std::chrono::seconds(300));
  results.TimeAtMost("from SIGTERM to the end",
                     Seconds(SteadyClock::now() - term).count(), 2, "s");
  results.Exactly("exit code", code.value_or(-1), 0, "");
  return absl::OkStatus();
}

}  // namespace mnemon::serving
