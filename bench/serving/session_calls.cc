// SPDX-License-Identifier: MIT
#include "bench/serving/session_calls.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr std::chrono::seconds kDeadline{300};  // only a call that hangs comes to it

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
}

absl::Status Checked(const char* method, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError(StrCat(method, ": ", status.error_message()));
}

std::string NameOf(const std::string& id) { return "sessions/" + id; }

}  // namespace

absl::Status CreateSession(Connection& connection, const std::string& id,
                           const std::string& model) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::CreateSessionRequest request;
  request.set_session_id(id);
  request.mutable_session()->set_model("models/" + model);
  v1::Session session;
  return Checked("CreateSession",
                 connection.sessions->CreateSession(&context, request, &session));
}

absl::Status GetSession(Connection& connection, const std::string& id) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetSessionRequest request;
  request.set_name(NameOf(id));
  v1::Session session;
  return Checked("GetSession",
                 connection.sessions->GetSession(&context, request, &session));
}

absl::Status ForkSession(Connection& connection, const std::string& parent,
                         const std::string& id) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ForkSessionRequest request;
  request.set_name(NameOf(parent));
  request.set_session_id(id);
  v1::Session session;
  return Checked("ForkSession",
                 connection.sessions->ForkSession(&context, request, &session));
}

absl::Status DeleteSession(Connection& connection, const std::string& id) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::DeleteSessionRequest request;
  request.set_name(NameOf(id));
  google::protobuf::Empty nothing;
  return Checked("DeleteSession",
                 connection.sessions->DeleteSession(&context, request, &nothing));
}

absl::StatusOr<v1::ListSessionsResponse> ListSessions(
    Connection& connection, const v1::ListSessionsRequest& request) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListSessionsResponse page;
  MNEMON_RETURN_IF_ERROR(Checked(
      "ListSessions", connection.sessions->ListSessions(&context, request, &page)));
  return page;
}

absl::StatusOr<double> Turn(Connection& connection, const std::string& id,
                            int64_t prompt_tokens, int64_t new_tokens, uint64_t seed) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GenerateRequest request = MakeRequest("", prompt_tokens, new_tokens, seed);
  request.set_session(NameOf(id));
  const TimePoint begin = SteadyClock::now();
  const auto reader = connection.generation->Generate(&context, request);
  double first = -1;
  for (v1::GenerateResponse message; reader->Read(&message);) {
    if (first < 0 && message.tokens_size() > 0) {
      first = Seconds(SteadyClock::now() - begin).count();
    }
  }
  MNEMON_RETURN_IF_ERROR(Checked("Generate", reader->Finish()));
  if (first < 0) return absl::InternalError(StrCat("Generate on ", id, ": no token"));
  return first;
}

std::string IdOf(int64_t number) { return absl::StrFormat("s%07d", number); }

absl::Status MakeSessions(Connections& connections, const std::string& model,
                          int64_t first, int64_t end, int64_t prompt_tokens) {
  std::atomic<int64_t> next{first};
  std::mutex mutex;
  absl::Status failed;  // guarded by mutex
  std::vector<std::thread> creators;
  for (int i = 0; i < kCreators; ++i) {
    Connection& connection = connections.at(static_cast<size_t>(i));
    creators.emplace_back([&] {
      for (int64_t number; (number = next++) < end;) {
        absl::Status status = CreateSession(connection, IdOf(number), model);
        if (status.ok()) {
          status = Turn(connection, IdOf(number), prompt_tokens, 1,
                        static_cast<uint64_t>(number))
                       .status();
        }
        if (status.ok()) continue;
        next = end;
        std::lock_guard lock(mutex);
        failed.Update(status);
      }
    });
  }
  for (std::thread& creator : creators) creator.join();
  return failed;
}

absl::StatusOr<std::vector<double>> Timed(
    int64_t count, const std::function<absl::Status(int64_t number)>& call) {
  std::vector<double> seconds;
  for (int64_t number = 0; number < count; ++number) {
    const TimePoint begin = SteadyClock::now();
    MNEMON_RETURN_IF_ERROR(call(number));
    seconds.push_back(Seconds(SteadyClock::now() - begin).count());
  }
  return seconds;
}

}  // namespace mnemon::serving
