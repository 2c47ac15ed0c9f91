// SPDX-License-Identifier: MIT
// Bytes of a message as a client may send them, for every method. Those of the long
// calls go up to the point where the engine would take the request: refused with a
// status that can be sent, or within all limits. Those of the others go to a server,
// and each refusal of ours says its reason. The first byte picks the method, or a
// stream of messages for Converse (streams.proto).
#include <cstddef>
#include <cstdint>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>

#include "base/check.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "mnemon/v1/admin.pb.h"
#include "server/requests/request_check.h"
#include "server/rpc/status_mapping.h"
#include "server/service/messages/messages.h"
#include "tests/fuzz/fuzz_server.h"

namespace mnemon {
namespace {

constexpr CallLimits kLimits = {
    .vocab = 256, .max_tokens = 1000, .max_prompt_tokens = 1000};

// What goes back to the client: bounded, with a text, and never without a code.
template <class Message>
void Refuse(const absl::Status& status, const Message& message) {
  const grpc::Status sent = ToGrpcStatus(status, ScopeOf(message), nullptr);
  MNEMON_CHECK(!sent.ok() && !sent.error_message().empty());
  MNEMON_CHECK(sent.error_message().size() < 4096);
  MNEMON_CHECK(sent.error_details().size() < 16384);
}

void Create(const v1::CreateSessionRequest& message) {
  const auto request = FromMessage(message);
  if (!request.ok()) return Refuse(request.status(), message);
  const absl::Status id =
      request->id.empty() ? absl::OkStatus() : CheckSessionId(request->id, "id");
  if (!id.ok()) return Refuse(id, message);
  const absl::Status ttl = CheckTtl(request->settings.ttl);
  if (!ttl.ok()) return Refuse(ttl, message);
}

void Generate(const v1::GenerateRequest& message) {
  static const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  const auto request = FromMessage(message);
  if (!request.ok()) return Refuse(request.status(), message);
  const absl::Status call = CheckCall(*request, kLimits);
  if (!call.ok()) return Refuse(call, message);
  MNEMON_CHECK(request->max_tokens.value_or(0) >= 0);
  MNEMON_CHECK(request->sampling.temperature >= 0);
  const auto tokens = PromptTokens(request->prompt, tokenizer.get(), kLimits);
  if (!tokens.ok()) return Refuse(tokens.status(), message);
  MNEMON_CHECK(tokens->size() <= static_cast<size_t>(kLimits.max_prompt_tokens));
  for (const int32_t token : *tokens) MNEMON_CHECK(token >= 0 && token < kLimits.vocab);
}

void Score(const v1::ScoreRequest& message) {
  if (message.has_part()) {
    (void)FromMessage(message.part());
    return;
  }
  const auto request = FromMessage(message.open());
  if (!request.ok()) return Refuse(request.status(), message.open());
  const absl::Status candidates = CheckCandidates(request->candidates, kLimits.vocab);
  if (!candidates.ok()) Refuse(candidates, message.open());
}

void Predict(const v1::PredictRequest& message) {
  constexpr int64_t kPositions = 64;
  const auto request = FromMessage(message);
  if (!request.ok()) return Refuse(request.status(), message);
  const absl::Status input = CheckPredict({.tokens = request->tokens,
                                           .batch = request->batch,
                                           .mask = request->mask,
                                           .explicit_mask = request->explicit_mask,
                                           .maps = request->maps},
                                          kLimits.vocab, kPositions);
  if (!input.ok()) return Refuse(input, message);
  for (const int32_t token : request->tokens) {
    MNEMON_CHECK(token >= 0 && token < kLimits.vocab);
  }
}

template <class Message>
void Parse(const void* bytes, int length, void (*use)(const Message&)) {
  Message message;
  if (message.ParseFromArray(bytes, length)) use(message);
}

template <class Message>
std::unique_ptr<google::protobuf::Message> New() {
  return std::make_unique<Message>();
}

// A method, and what it takes.
struct Method {
  const char* path;
  std::unique_ptr<google::protobuf::Message> (*message)();
};

constexpr char kConverse[] = "/mnemon.v1.Generation/Converse";

// Ordered by their first bytes, which follow those of the calls above.
constexpr Method kMethods[] = {
    {"/mnemon.v1.Sessions/GetSession", &New<v1::GetSessionRequest>},
    {"/mnemon.v1.Sessions/ListSessions", &New<v1::ListSessionsRequest>},
    {"/mnemon.v1.Sessions/UpdateSession", &New<v1::UpdateSessionRequest>},
    {"/mnemon.v1.Sessions/DeleteSession", &New<v1::DeleteSessionRequest>},
    {"/mnemon.v1.Sessions/ForkSession", &New<v1::ForkSessionRequest>},
    {"/mnemon.v1.Sessions/RewindSession", &New<v1::RewindSessionRequest>},
    {"/mnemon.v1.Sessions/CheckpointSession", &New<v1::CheckpointSessionRequest>},
    {"/mnemon.v1.Sessions/ExportSession", &New<v1::ExportSessionRequest>},
    {"/mnemon.v1.Sessions/ImportSession", &New<v1::ImportSessionRequest>},
    {"/mnemon.v1.Sessions/VerifySession", &New<v1::VerifySessionRequest>},
    {"/mnemon.v1.Generation/Tokenize", &New<v1::TokenizeRequest>},
    {"/mnemon.v1.Generation/Detokenize", &New<v1::DetokenizeRequest>},
    {kConverse, &New<v1::ConverseRequest>},
    {"/mnemon.v1.Models/ListModels", &New<v1::ListModelsRequest>},
    {"/mnemon.v1.Models/GetModel", &New<v1::GetModelRequest>},
    {"/mnemon.v1.Admin/GetLoad", &New<v1::GetLoadRequest>},
    {"/mnemon.v1.Admin/Drain", &New<v1::DrainRequest>},
};

constexpr size_t kMostMessages = 16;

// Whether the toy decoder fails on purpose with its prompt, which is no fault.
bool FailsOnPurpose(const v1::ConverseRequest& message) {
  const auto fails = [](int32_t token) {
    return token >= ToyDecoder::kOrdinaryTokens && token < ToyDecoder::kVocab;
  };
  const v1::Prompt& prompt = message.turn().prompt();
  return std::ranges::any_of(prompt.tokens().ids(), fails) ||
         std::ranges::any_of(prompt.text(), fails);
}

// The messages of a ConverseStream, up to the first that is none.
std::vector<std::string> MessagesOf(const void* bytes, int length) {
  constexpr uint32_t kTag = 1 << 3 | 2;
  google::protobuf::io::CodedInputStream in(static_cast<const uint8_t*>(bytes), length);
  std::vector<std::string> messages;
  uint32_t size = 0;
  for (std::string message; messages.size() < kMostMessages && in.ReadTag() == kTag &&
                            in.ReadVarint32(&size) &&
                            in.ReadString(&message, static_cast<int>(size));) {
    v1::ConverseRequest parsed;
    if (!parsed.ParseFromString(message) || FailsOnPurpose(parsed)) break;
    messages.push_back(message);
  }
  return messages;
}

// A server and a client of it that sends any bytes.
class Wire {
 public:
  Wire() : stub_(server_.NewChannel()) {}

  void Call(const Method& method, const void* bytes, size_t length) {
    // What is no such message is gRPC's to refuse.
    if (!method.message()->ParseFromArray(bytes, static_cast<int>(length))) return;
    Check(Send(method.path, bytes, length));
  }

  void Converse(const std::vector<std::string>& messages) {
    if (!messages.empty()) Check(SendAll(kConverse, messages));
  }

 private:
  // Tags of what a stream has under way.
  enum Tag : intptr_t { kWrite = 1, kRead };

  void Check(const grpc::Status& status) {
    const grpc::StatusCode code = status.error_code();
    MNEMON_CHECK(code != grpc::StatusCode::DEADLINE_EXCEEDED);
    MNEMON_CHECK(code != grpc::StatusCode::INTERNAL);
    MNEMON_CHECK(code != grpc::StatusCode::UNKNOWN);
    if (!status.ok()) CheckReason(status);
    server_.Tidy();
  }

  static void CheckReason(const grpc::Status& status) {
    google::rpc::Status details;
    MNEMON_CHECK(details.ParseFromString(status.error_details()));
    google::rpc::ErrorInfo info;
    for (const auto& any : details.details()) {
      if (any.Is<google::rpc::ErrorInfo>()) any.UnpackTo(&info);
    }
    MNEMON_CHECK(!info.reason().empty());
  }

  // One message, and all answers.
  grpc::Status Send(const std::string& path, const void* bytes, size_t length) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    auto call = stub_.PrepareCall(&context, path, &queue_);
    call->StartCall(nullptr);
    Next();
    const grpc::Slice slice(bytes, length);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    Next();
    grpc::ByteBuffer answer;
    do {
      call->Read(&answer, nullptr);
    } while (Next());
    grpc::Status status;
    call->Finish(&status, nullptr);
    Next();
    return status;
  }

  // One message after the other, and all answers. Where a turn ends soon, the next
  // message finds it ended.
  grpc::Status SendAll(const std::string& path,
                       const std::vector<std::string>& messages) {
    constexpr std::chrono::milliseconds kPause{2};
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    auto call = stub_.PrepareCall(&context, path, &queue_);
    call->StartCall(nullptr);
    Next();
    grpc::ByteBuffer answer;
    bool reading = true;
    call->Read(&answer, reinterpret_cast<void*>(kRead));
    // False: a write ended, as `ok` says.
    const auto was_read = [&](void* tag, bool ok) {
      if (tag != reinterpret_cast<void*>(kRead)) return false;
      reading = ok;
      if (ok) call->Read(&answer, tag);
      return true;
    };
    const auto await_write = [&] {
      void* tag = nullptr;
      bool ok = false;
      do {
        MNEMON_CHECK(queue_.Next(&tag, &ok));
      } while (was_read(tag, ok));
      return ok;
    };
    bool writes = true;
    for (size_t i = 0; i < messages.size() && writes; ++i) {
      const grpc::Slice slice(messages[i]);
      call->Write(grpc::ByteBuffer(&slice, 1), reinterpret_cast<void*>(kWrite));
      writes = await_write();
      void* tag = nullptr;
      bool ok = false;
      while (reading &&
             queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kPause) ==
                 grpc::CompletionQueue::GOT_EVENT) {
        was_read(tag, ok);
      }
    }
    call->WritesDone(reinterpret_cast<void*>(kWrite));
    await_write();
    while (reading) was_read(reinterpret_cast<void*>(kRead), Next());
    grpc::Status status;
    call->Finish(&status, nullptr);
    Next();
    return status;
  }

  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    MNEMON_CHECK(queue_.Next(&tag, &ok));
    return ok;
  }

  FuzzServer server_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

Wire& Serving() {
  static Wire& wire = *new Wire;
  return wire;
}

void CallMethod(size_t index, const void* bytes, size_t length) {
  if (std::string_view(kMethods[index].path) != "/mnemon.v1.Admin/Drain") {
    return Serving().Call(kMethods[index], bytes, length);
  }
  // It takes no work any more.
  static Wire& drained = *new Wire;
  drained.Call(kMethods[index], bytes, length);
}

}  // namespace
}  // namespace mnemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool silent = (mnemon::InstallLibraryLogs(), true);
  (void)silent;
  if (size == 0) return 0;
  const void* bytes = data + 1;
  const int length = static_cast<int>(size) - 1;
  constexpr size_t kOwn = 4;
  constexpr size_t kStream = kOwn + std::size(mnemon::kMethods);
  const size_t method = data[0] % (kStream + 1);
  switch (method) {
    case 0:
      mnemon::Parse(bytes, length, &mnemon::Generate);
      break;
    case 1:
      mnemon::Parse(bytes, length, &mnemon::Create);
      break;
    case 2:
      mnemon::Parse(bytes, length, &mnemon::Score);
      break;
    case 3:
      mnemon::Parse(bytes, length, &mnemon::Predict);
      break;
    case kStream:
      mnemon::Serving().Converse(mnemon::MessagesOf(bytes, length));
      break;
    default:
      mnemon::CallMethod(method - kOwn, bytes, size - 1);
  }
  return 0;
}
