// SPDX-License-Identifier: MIT
// Every status that leaves the server and is no OK, CANCELLED or DEADLINE_EXCEEDED has
// an ErrorInfo: of all methods, known and unknown, whatever happens to the server.
#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kUnknownMethod[] = "/mnemon.v1.Generation/Guess";
constexpr char kUnknownService[] = "/other.Service/Method";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kReflection[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

std::vector<std::string> OurMethods() {
  std::vector<std::string> methods;
  for (const char* service : {"Generation", "Sessions", "Models", "Admin"}) {
    const auto* found =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            StrCat("mnemon.v1.", service));
    for (int i = 0; i < found->method_count(); ++i) {
      methods.push_back(StrCat("/", found->full_name(), "/", found->method(i)->name()));
    }
  }
  return methods;
}

std::vector<std::string> AllMethods() {
  std::vector<std::string> methods = OurMethods();
  methods.insert(methods.end(), {kUnknownMethod, kUnknownService,
                                 "/grpc.health.v1.Health/Check", kWatch, kReflection});
  return methods;
}

// A call of bytes, whose answers are read and dropped.
class BytesCall {
 public:
  BytesCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
            milliseconds timeout)
      : context_(timeout), stub_(channel) {
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(nullptr);
    Await();
  }
  ~BytesCall() {
    queue_.Shutdown();
    while (Await()) {
    }
  }

  void Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    call_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    Await();
  }
  void WritesDone() {
    call_->WritesDone(nullptr);
    Await();
  }
  // Reads to the end.
  grpc::Status Finish() {
    grpc::ByteBuffer answer;
    do {
      call_->Read(&answer, nullptr);
    } while (Await());
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Await();
    return status;
  }
  // Our server has sent the status, and not the client's library made it.
  bool FromServer() const {
    return context_.GetServerTrailingMetadata().contains("x-request-id");
  }

 private:
  // Whether the operation succeeded.
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  BoundedContext context_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

grpc::Status Called(const Rig& rig, const std::string& method,
                    const std::string& bytes) {
  // A Watch without an end lasts so long.
  BytesCall call(rig.channel, method,
                 method == kWatch ? milliseconds(200) : milliseconds(kPatience));
  call.Write(bytes);
  call.WritesDone();
  return call.Finish();
}

std::string WireReasonOf(const grpc::Status& status) {
  return GetErrorDetail(client::FromGrpcStatus(status)).value_or(ErrorDetail{}).reason;
}

void ExpectTyped(const grpc::Status& status, const std::string& what) {
  if (status.ok() || status.error_code() == grpc::StatusCode::CANCELLED ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return;
  }
  EXPECT_NE(WireReasonOf(status), "")
      << what << ": " << status.error_code() << " " << status.error_message();
}

enum class Situation { kServing, kDraining, kLimited };

class EachSituation : public testing::TestWithParam<Situation> {};

std::string NameOf(const testing::TestParamInfo<Situation>& info) {
  switch (info.param) {
    case Situation::kServing:
      return "Serving";
    case Situation::kDraining:
      return "Draining";
    case Situation::kLimited:
      break;
  }
  return "Limited";
}

INSTANTIATE_TEST_SUITE_P(All, EachSituation,
                         testing::Values(Situation::kServing, Situation::kDraining,
                                         Situation::kLimited),
                         NameOf);

TEST_P(EachSituation, GivesEveryErrorItsErrorInfo) {
  RigOptions options{.models = {"a", "b"}};
  if (GetParam() == Situation::kLimited) options.service.max_calls_per_second = 1e-3;
  Rig rig(options);
  if (GetParam() == Situation::kDraining) rig.engine->Drain();
  int errors = 0;
  for (const std::string& method : AllMethods()) {
    // Nothing, what is no message, and a message of an unknown service or name.
    for (const std::string& bytes :
         {std::string(), std::string("\xff\xff\xff"), std::string("\x0a\x02xy")}) {
      const grpc::Status status = Called(rig, method, bytes);
      ExpectTyped(status, method);
      errors += status.ok() ? 0 : 1;
    }
  }
  EXPECT_GT(errors, 40);
}

TEST(ErrorInfo, SaysWhatGrpcRefuses) {
  Rig rig;
  const auto reason = [&](const std::string& method, const std::string& bytes) {
    return WireReasonOf(Called(rig, method, bytes));
  };
  EXPECT_EQ(reason(kUnknownMethod, ""), "METHOD_UNIMPLEMENTED");
  EXPECT_EQ(reason(kUnknownService, ""), "METHOD_UNIMPLEMENTED");
  EXPECT_EQ(reason("/mnemon.v1.Generation/Generate", "\xff"), "MALFORMED_MESSAGE");
  EXPECT_EQ(reason("/mnemon.v1.Sessions/GetSession", "\xff"), "MALFORMED_MESSAGE");
  EXPECT_EQ(reason("/grpc.health.v1.Health/Check", "\x0a\x02xy"), "MODEL_NOT_FOUND");
}

// Those that are open when the server ends, of all methods that stay open.
TEST(ErrorInfo, IsInTheEndsByAShutdown) {
  Rig rig;
  rig.decoder.Allow(0);
  v1::GenerateRequest generate;
  generate.mutable_prompt()->mutable_tokens()->add_ids(1);
  generate.mutable_stopping()->set_max_tokens(1000);
  v1::ScoreRequest open;
  open.mutable_open();
  struct Open {
    std::string method, bytes;
  };
  std::vector<std::unique_ptr<BytesCall>> calls;
  const std::vector<Open> opened = {
      {"/mnemon.v1.Generation/Generate", generate.SerializeAsString()},
      {"/mnemon.v1.Generation/Score", open.SerializeAsString()},
      {"/mnemon.v1.Generation/Score", ""},
      {kWatch, ""},
      {kReflection, ""}};
  for (const auto& [method, bytes] : opened) {
    calls.push_back(std::make_unique<BytesCall>(rig.channel, method, kPatience));
    if (!bytes.empty() || method == kWatch) calls.back()->Write(bytes);
  }
  rig.decoder.AwaitHeld();
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().running == 2; }));
  std::future<void> closed =
      std::async(std::launch::async, [&] { rig.server->Shutdown(milliseconds(0)); });
  for (size_t i = 0; i < calls.size(); ++i) {
    const grpc::Status status = calls[i]->Finish();
    EXPECT_FALSE(status.ok());
    if (calls[i]->FromServer()) ExpectTyped(status, opened[i].method);
    if (i < 2) {
      EXPECT_EQ(WireReasonOf(status), "DRAINING") << opened[i].method;
    }
  }
  closed.get();
}

// Calls that arrive from the drain to the end, over connections that are open: what the
// server answers is typed; then the connection is gone, which the client's library
// says.
TEST(ErrorInfo, IsInWhatIsAnsweredDuringAShutdown) {
  Rig rig;
  std::atomic<int> answered = 0, gone = 0;
  std::vector<std::future<void>> callers;
  for (const std::string& method : OurMethods()) {
    callers.push_back(std::async(std::launch::async, [&, method] {
      const auto channel = rig.NewChannel();
      for (int after = 0; after < 3;) {
        BytesCall call(channel, method, kPatience);
        call.Write("");
        call.WritesDone();
        const grpc::Status status = call.Finish();
        if (call.FromServer()) {
          ExpectTyped(status, method);
          ++answered;
        } else {
          // Cancelled: it came when gRPC's core had begun to shut down.
          EXPECT_TRUE(status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::CANCELLED)
              << method << ": " << status.error_message();
          ++gone;
          ++after;
        }
      }
    }));
  }
  EXPECT_TRUE(Eventually([&] { return answered > 200; }));
  rig.engine->Drain();
  rig.server->Shutdown(milliseconds(100));
  for (auto& caller : callers) caller.get();
  EXPECT_EQ(gone, 3 * static_cast<int>(callers.size()));
}

}  // namespace
}  // namespace mnemon
