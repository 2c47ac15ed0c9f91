// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz_server.h"

#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kPatience{5};
constexpr milliseconds kIdle{200};

}  // namespace

FuzzServer::FuzzServer()
    : tokenizer_(MakeByteTokenizer()), decoder_(ToyState::kFixedAndAppend) {
  SetLogLevel(LogLevel::kError);
  const ModelFacts facts = {.name = "toy",
                            .model_id = "id",
                            .numerics_id = "toy",
                            .architecture = "toy",
                            .config_json = "{}",
                            .vocab = ToyDecoder::kVocab,
                            .has_tokenizer = true,
                            .parameters = 1};
  auto engine = Engine::Create(
      {{.facts = facts, .decoder = &decoder_, .tokenizer = tokenizer_.get()}},
      {.sessions = 16, .max_queue = 8, .idle_timeout = kIdle});
  MNEMON_CHECK(engine.ok());
  engine_ = *std::move(engine);
  auto service = Service::Create(*engine_, {.idle_timeout = kIdle});
  MNEMON_CHECK(service.ok());
  service_ = *std::move(service);
  auto server = RpcServer::Start(*service_, {.listen = "127.0.0.1:0"});
  MNEMON_CHECK(server.ok());
  server_ = *std::move(server);
  Tidy();
}

void FuzzServer::Tidy() {
  (void)engine_->CreateSession({.id = "anna"});
  service_->EndIdleCalls();
}

std::shared_ptr<grpc::Channel> FuzzServer::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(StrCat("127.0.0.1:", port()),
                                   grpc::InsecureChannelCredentials(), arguments);
}

void FuzzServer::CheckAlive() {
  auto health = grpc::health::v1::Health::NewStub(NewChannel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  grpc::health::v1::HealthCheckResponse answer;
  const grpc::Status status = health->Check(&context, {}, &answer);
  MNEMON_CHECK(status.ok());
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (EngineStats now = engine_->Stats(); now.running + now.queued > 0;
       now = engine_->Stats()) {
    MNEMON_CHECK(std::chrono::steady_clock::now() < deadline);
    service_->EndIdleCalls();
    std::this_thread::sleep_for(milliseconds(2));
  }
}

}  // namespace mnemon
