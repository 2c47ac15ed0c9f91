// SPDX-License-Identifier: MIT
// Generation.Predict over gRPC, beside a model that generates.
#include <algorithm>
#include <future>
#include <set>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/toy_predictor.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using client::PredictOptions;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

struct PredictRig {
  explicit PredictRig(int32_t max_queue = 2, int64_t pieces = 1) : predictor(pieces) {
    EngineModel encoder{.facts = {.name = "encoder", .vocab = ToyPredictor::kVocab},
                        .predictor = &predictor};
    EngineModel toy{.facts = {.name = "toy", .vocab = ToyDecoder::kVocab},
                    .decoder = &decoder};
    engine = *Engine::Create({encoder, toy}, {.max_queue = max_queue});
    service = *Service::Create(*engine, {});
    server = *RpcServer::Start(*service, {.listen = "127.0.0.1:0"});
    client = client::Client::Connect({.server = StrCat("127.0.0.1:", server->port())});
    stub = v1::Generation::NewStub(grpc::CreateChannel(
        StrCat("127.0.0.1:", server->port()), grpc::InsecureChannelCredentials()));
  }
  ~PredictRig() { predictor.Finish(); }

  ToyPredictor predictor;
  ToyDecoder decoder{ToyState::kFixed};
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Service> service;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<client::Client> client;
  std::unique_ptr<v1::Generation::Stub> stub;
};

// The answer of the predictor by itself.
Predictor::Output Direct(const PredictOptions& options) {
  ToyPredictor predictor;
  std::vector<int32_t> tokens;
  for (const auto& ids : options.sequences) {
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }
  const auto output =
      predictor.Predict({.tokens = tokens,
                         .batch = static_cast<int64_t>(options.sequences.size()),
                         .mask = static_cast<PredictMask>(options.mask),
                         .explicit_mask = options.explicit_mask,
                         .maps = static_cast<AttentionMaps>(options.maps)});
  EXPECT_TRUE(output.ok()) << output.status();
  return *output;
}

TEST(Predict, GivesLogitsAndMapsUnderEveryMask) {
  PredictRig rig;
  PredictOptions options{.model = "encoder", .sequences = {{1, 2, 3}, {4, 5, 6}}};
  std::set<std::vector<float>> seen;
  using M = client::PredictMask;
  for (const auto mask : {M::kConfig, M::kCausal, M::kExplicit, M::kExplicit}) {
    options.mask = mask;
    if (mask == M::kExplicit) {
      options.explicit_mask.resize(options.explicit_mask.empty() ? 9 : 18, 0);
      options.explicit_mask[1] = 1;
      options.explicit_mask.back() = 200;
    }
    for (const auto maps : {client::PredictMaps::kNone, client::PredictMaps::kUsed,
                            client::PredictMaps::kNotebook}) {
      options.maps = maps;
      const auto got = rig.client->Predict(options);
      ASSERT_TRUE(got.ok()) << got.status();
      const Predictor::Output expected = Direct(options);
      EXPECT_THAT(got->logits.shape, ElementsAre(2, 3, ToyPredictor::kVocab));
      EXPECT_THAT(got->logits.values, ElementsAreArray(expected.logits));
      ASSERT_EQ(got->maps.size(), expected.maps.size());
      for (size_t i = 0; i < got->maps.size(); ++i) {
        EXPECT_THAT(got->maps[i].shape, ElementsAre(2, 2, 3, 3));
        EXPECT_THAT(got->maps[i].values, ElementsAreArray(expected.maps[i]));
      }
      seen.insert(got->logits.values);
    }
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(Predict, ErrorsNameTheField) {
  PredictRig rig;
  const auto expect = [&](const PredictOptions& options, absl::StatusCode code,
                          const std::string& field) {
    const absl::Status status = rig.client->Predict(options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).field, field) << status;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const std::string model = "encoder";
  expect({.model = model}, kInvalid, "sequences");
  expect({.model = model, .sequences = {{}}}, kInvalid, "sequences[0]");
  expect({.model = model, .sequences = {{1, 2}, {1}}}, kInvalid, "sequences[1]");
  expect({.model = model, .sequences = {{1, 12}}}, kInvalid, "sequences");
  expect({.model = model, .sequences = {{-1}}}, kInvalid, "sequences");
  expect({.model = model, .sequences = {std::vector<int32_t>(65, 1)}},
         absl::StatusCode::kFailedPrecondition, "sequences");
  expect({.model = model, .sequences = {{1}}, .explicit_mask = {1}}, kInvalid,
         "explicit_mask");
  expect({.model = model,
          .sequences = {{1, 2}},
          .mask = client::PredictMask::kExplicit,
          .explicit_mask = {1, 1, 1}},
         kInvalid, "explicit_mask");
  expect({.model = model,
          .sequences =
              std::vector<std::vector<int32_t>>(2000, std::vector<int32_t>(64, 1))},
         kInvalid, "sequences");
  expect({.sequences = {{1}}}, kInvalid, "model");
  expect({.model = "nobody", .sequences = {{1}}}, absl::StatusCode::kNotFound, "model");
  v1::PredictRequest odd;
  odd.set_model("models/encoder");
  odd.add_sequences()->add_ids(1);
  odd.set_mask(static_cast<v1::PredictRequest::Mask>(9));
  BoundedContext context;
  v1::PredictResponse response;
  EXPECT_EQ(GetErrorDetail(
                client::FromGrpcStatus(rig.stub->Predict(&context, odd, &response)))
                ->field,
            "mask");
}

TEST(Predict, EachKindOfModelRefusesTheOther) {
  PredictRig rig;
  const auto reason = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    return GetErrorDetail(status).value_or(ErrorDetail{}).reason;
  };
  EXPECT_EQ(reason(rig.client->Predict({.model = "toy", .sequences = {{1}}}).status()),
            "MODEL_KIND");
  EXPECT_EQ(
      reason(Collect(*rig.client, {.model = "encoder", .tokens = {1}}).result.status()),
      "MODEL_KIND");
  EXPECT_EQ(reason(rig.client
                       ->Score({.model = "encoder", .tokens = {1}},
                               [](const auto&) { return true; })
                       .status()),
            "MODEL_KIND");
  EXPECT_EQ(reason(rig.client->CreateSession("s", "encoder").status()), "MODEL_KIND");
}

TEST(Predict, AFailureIsTypedAndHarmsNobodyElse) {
  PredictRig rig;
  const auto failed = rig.client->Predict(
      {.model = "encoder", .sequences = {{ToyPredictor::kThrowing}}});
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(GetErrorDetail(failed.status())->reason, "MODEL_FAILURE");
  EXPECT_TRUE(rig.client->Predict({.model = "encoder", .sequences = {{1}}}).ok());
}

TEST(Predict, WaitsInABoundedQueueAndADeadlineThereCostsNothing) {
  PredictRig rig;
  rig.predictor.Close();
  const PredictOptions options{.model = "encoder", .sequences = {{1, 2}}};
  auto first =
      std::async(std::launch::async, [&] { return rig.client->Predict(options); });
  ASSERT_TRUE(rig.predictor.AwaitHeld());
  v1::PredictRequest request;
  request.set_model("models/encoder");
  request.add_sequences()->add_ids(1);
  {
    BoundedContext context(std::chrono::milliseconds(50));
    v1::PredictResponse response;
    EXPECT_EQ(rig.stub->Predict(&context, request, &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().queued == 0; }));
  std::vector<std::future<absl::StatusOr<client::PredictResult>>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(
        std::async(std::launch::async, [&] { return rig.client->Predict(options); }));
  }
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().queued == 2; }));
  const auto refused = rig.client->Predict(options);
  EXPECT_EQ(GetErrorDetail(refused.status())->reason, "QUEUE_FULL");
  rig.predictor.Open();
  EXPECT_TRUE(first.get().ok());
  for (auto& one : waiting) EXPECT_TRUE(one.get().ok());
  EXPECT_EQ(rig.predictor.pieces(), 3);
}

// One runs, one waits in the queue.
TEST(Predict, HasTheGraceOfADrain) {
  PredictRig rig;
  rig.predictor.Close();
  const PredictOptions options{.model = "encoder", .sequences = {{1, 2}}};
  const auto start = [&] {
    return std::async(std::launch::async, [&] { return rig.client->Predict(options); });
  };
  auto runs = start();
  ASSERT_TRUE(rig.predictor.AwaitHeld());
  auto waits = start();
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().queued == 1; }));
  rig.engine->Drain();
  auto closed =
      std::async(std::launch::async, [&] { rig.server->Shutdown(2 * kPatience); });
  const absl::Status late = rig.client->Predict(options).status();
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_EQ(GetErrorDetail(late)->reason, "DRAINING");
  EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(50)),
            std::future_status::timeout);
  rig.predictor.Open();
  for (auto* call : {&runs, &waits}) {
    const auto got = call->get();
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(got->logits.values, ElementsAreArray(Direct(options).logits));
  }
  EXPECT_EQ(closed.wait_for(kPatience), std::future_status::ready);
}

TEST(Predict, EndsTypedAfterTheGrace) {
  PredictRig rig(2, ToyPredictor::kEndless);
  const PredictOptions options{.model = "encoder", .sequences = {{1, 2}}};
  std::vector<std::future<absl::StatusOr<client::PredictResult>>> calls;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(
        std::async(std::launch::async, [&] { return rig.client->Predict(options); }));
  }
  EXPECT_TRUE(Eventually([&] {
    const EngineStats now = rig.engine->Stats();
    return now.queued == 1 && now.running == 1;
  }));
  rig.engine->Drain();
  rig.server->Shutdown(std::chrono::milliseconds(50));
  for (auto& call : calls) {
    const absl::Status status = call.get().status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).reason, "DRAINING");
  }
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
}

TEST(Predict, BesideStreams) {
  PredictRig rig(/*max_queue=*/8);
  std::vector<std::future<bool>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(std::async(std::launch::async, [&rig, i] {
      bool good = true;
      for (int round = 0; round < 10; ++round) {
        if (i % 2 == 0) {
          const PredictOptions options{.model = "encoder", .sequences = {{i, round}}};
          const auto got = rig.client->Predict(options);
          good &= got.ok() &&
                  std::ranges::equal(got->logits.values, Direct(options).logits);
        } else {
          const Collected got = Collect(*rig.client, {.model = "toy",
                                                      .tokens = {i},
                                                      .stopping = {.max_tokens = 20},
                                                      .sampling = {.temperature = 0}});
          good &= got.tokens ==
                  ToyContinuation(ToyState::kFixed, {i}, 20, {.temperature = 0});
        }
      }
      return good;
    }));
  }
  for (auto& one : all) EXPECT_TRUE(one.get());
}

}  // namespace
}  // namespace mnemon
