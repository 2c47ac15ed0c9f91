// SPDX-License-Identifier: MIT
// A server over a toy decoder on a free loopback port, and clients of it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "base/error.h"
#include "base/strings.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "mnemon/v1/admin.grpc.pb.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "mnemon/v1/models.grpc.pb.h"
#include "mnemon/v1/sessions.grpc.pb.h"
#include "model/text/tokenizer.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "server/service/service.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/toy_decoder.h"

namespace mnemon {

// Forty characters; sorted by code point, the id is the place: '\n' 0, ' ' 1, '.' 2,
// digits 3.., letters 13.., 'é' 39.
inline constexpr char kToyAlphabet[] =
    "\n .0123456789abcdefghijklmnopqrstuvwxyz\xc3\xa9";

// Empty if a status has none.
inline std::string ReasonOf(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).reason;
}

struct RigOptions {
  ToyState state = ToyState::kFixedAndAppend;
  int64_t append_capacity = 1024;
  bool tokenizer = true;
  ChatTemplate chat_template = {};
  std::string chat_program = {};  // in Jinja, in place of it
  absl::Status no_chat_program = {};
  GenerationDefaults generation = {};
  std::vector<std::string> models = {"toy"};
  std::vector<ToyState> other_states = {};  // of the second model on; else `state`
  Engine::Options engine;
  ServiceOptions service;
  RpcOptions rpc;
};

// Members in the order of their lifetimes.
class Rig {
 public:
  explicit Rig(const RigOptions& options = {})
      : tokenizer(*MakeCharTokenizer(kToyAlphabet)),
        decoder(options.state, options.append_capacity) {
    std::vector<EngineModel> models;
    for (const std::string& name : options.models) {
      if (!models.empty()) {
        const size_t i = models.size() - 1;
        others.push_back(std::make_unique<ToyDecoder>(
            i < options.other_states.size() ? options.other_states[i] : options.state));
      }
      ModelFacts facts{.name = name,
                       .model_id = "id-" + name,
                       .numerics_id = "toy",
                       .architecture = "toy",
                       .config_json = "{}",
                       .vocab = ToyDecoder::kVocab,
                       .has_tokenizer = options.tokenizer,
                       .parameters = 12345,
                       .kernels = "avx2",
                       .chat_template = options.chat_template,
                       .no_chat_program = options.no_chat_program,
                       .generation = options.generation};
      if (!options.chat_program.empty()) {
        facts.chat_program =
            ChatProgram::Make({.chat_template_jinja = options.chat_program}).value();
      }
      models.push_back({.facts = facts,
                        .decoder = models.empty() ? &decoder : others.back().get(),
                        .tokenizer = options.tokenizer ? tokenizer.get() : nullptr});
    }
    for (EngineModel& model : models) {
      const int64_t limit = model.decoder->spec().max_positions();
      if (limit != StateSpec::kUnlimited) model.facts.context_limit = limit;
    }
    auto made = Engine::Create(std::move(models), options.engine);
    EXPECT_TRUE(made.ok()) << made.status();
    engine = *std::move(made);
    ServiceOptions service_options = options.service;
    service_options.idle_timeout = options.engine.idle_timeout;
    service = *Service::Create(*engine, service_options);
    RpcOptions rpc = options.rpc;
    rpc.listen = "127.0.0.1:0";
    auto started = RpcServer::Start(*service, rpc);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
    client = NewClient();
    channel = NewChannel();
    generation = v1::Generation::NewStub(channel);
    sessions = v1::Sessions::NewStub(channel);
    models_stub = v1::Models::NewStub(channel);
    admin = v1::Admin::NewStub(channel);
  }

  ~Rig() {
    decoder.AllowAll();
    server.reset();
    service.reset();
    engine.reset();
  }

  std::string address() const { return StrCat("127.0.0.1:", server->port()); }

  // A client without retries: tests see its errors at once.
  std::unique_ptr<client::Client> NewClient() const {
    return client::Client::Connect({.server = address(), .retry = {.tries = 1}});
  }

  std::shared_ptr<grpc::Channel> NewChannel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // A reader that does not read soon blocks the server.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 16);
    return grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  ToyDecoder decoder;
  std::vector<std::unique_ptr<ToyDecoder>> others;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Service> service;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<client::Client> client;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Generation::Stub> generation;
  std::unique_ptr<v1::Sessions::Stub> sessions;
  std::unique_ptr<v1::Models::Stub> models_stub;
  std::unique_ptr<v1::Admin::Stub> admin;
};

// A context whose call cannot hang a test.
struct BoundedContext : grpc::ClientContext {
  explicit BoundedContext(std::chrono::milliseconds timeout = kPatience) {
    set_deadline(std::chrono::system_clock::now() + timeout);
  }
};

// All tokens of one call of the client library.
struct Collected {
  absl::StatusOr<client::GenerateResult> result = absl::UnknownError("not run");
  std::vector<int32_t> tokens;
  std::string text;
  int64_t first_index = -1;
};
inline Collected Collect(client::Client& client,
                         const client::GenerateOptions& options) {
  Collected all;
  all.result = client.Generate(options, [&](const client::GenerateChunk& chunk) {
    if (all.first_index < 0) all.first_index = chunk.first_index;
    EXPECT_EQ(chunk.first_index,
              all.first_index + static_cast<int64_t>(all.tokens.size()));
    all.tokens.insert(all.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    all.text += chunk.text;
    return true;
  });
  return all;
}

}  // namespace mnemon
