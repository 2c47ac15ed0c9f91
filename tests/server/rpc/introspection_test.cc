// SPDX-License-Identifier: MIT
// Introspection in the messages of Generate and Converse.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "server/engine/decoder_calls.h"
#include "server/service/messages/messages.h"
#include "tests/server/rpc/talk.h"

namespace mnemon::converse {
namespace {

using ::testing::ElementsAreArray;

constexpr IntrospectionFields kAll = {true, true, true, true};

v1::OutputOptions AskAll() {
  v1::OutputOptions output;
  for (const IntrospectionField& one : kIntrospectionFields) {
    output.mutable_introspection()->add_paths(std::string(one.name));
  }
  return output;
}

void ExpectTold(const std::vector<v1::Introspection>& got, const Tokens& prompt,
                const Tokens& tokens) {
  Tokens history = prompt;
  Append(history, tokens);
  const std::vector<Introspection> expected =
      ToyIntrospections(ToyState::kFixedAndAppend, history, kAll);
  ASSERT_EQ(got.size(), tokens.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Introspection& one = expected[prompt.size() + i - 1];
    EXPECT_EQ(got[i].index(), static_cast<int64_t>(prompt.size() + i));
    EXPECT_THAT(got[i].hidden_state(), ElementsAreArray(one.hidden_state));
    EXPECT_THAT(got[i].update_norms(), ElementsAreArray(one.update_norms));
    EXPECT_THAT(got[i].state_norms(), ElementsAreArray(one.state_norms));
    ASSERT_EQ(got[i].memory_reads_size(), 1);
    const v1::MemoryRead& read = got[i].memory_reads(0);
    EXPECT_EQ(read.first_index(), one.memory_reads.first_index);
    EXPECT_THAT(read.weights(), ElementsAreArray(one.memory_reads.weights));
  }
}

TEST(RpcIntrospection, ComesWithTheTokensOfGenerate) {
  Rig rig;
  const Tokens prompt = {3, 1, 4};
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(prompt.begin(),
                                                                 prompt.end());
  request.mutable_stopping()->set_max_tokens(100);
  *request.mutable_output() = AskAll();
  BoundedContext context;
  const auto reader = rig.generation->Generate(&context, request);
  std::vector<v1::Introspection> got;
  Tokens tokens;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    EXPECT_EQ(response.introspection_size(), response.tokens_size());
    got.insert(got.end(), response.introspection().begin(),
               response.introspection().end());
    Append(tokens, {response.tokens().begin(), response.tokens().end()});
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens.size(), 100u);
  ExpectTold(got, prompt, tokens);
}

TEST(RpcIntrospection, ComesWithTheTurnsOfConverse) {
  Rig rig;
  Request open = OpenOf("", 5);
  *open.mutable_open()->mutable_output() = AskAll();
  BoundedContext context;
  const auto stream = rig.generation->Converse(&context);
  Response response;
  stream->Write(open);
  ASSERT_TRUE(stream->Read(&response) && response.has_opened());
  const Tokens prompt = {7, 2};
  stream->Write(TurnOf(prompt, 30));
  std::vector<v1::Introspection> got;
  Tokens tokens;
  while (!response.output().has_finish()) {
    ASSERT_TRUE(stream->Read(&response));
    const v1::GenerateResponse& output = response.output();
    got.insert(got.end(), output.introspection().begin(), output.introspection().end());
    Append(tokens, {output.tokens().begin(), output.tokens().end()});
    if (tokens.size() % 5 == 0) stream->Write(CreditsOf(5));
  }
  ExpectTold(got, prompt, tokens);
}

TEST(RpcIntrospection, ConverseNamesItsField) {
  Rig rig;
  Request open = OpenOf("", 5);
  open.mutable_open()->mutable_output()->mutable_introspection()->add_paths("memory");
  Talk talk(rig, open);
  const absl::Status refused = talk.End();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(refused)->field, "open.output.introspection");
}

TEST(RpcIntrospection, NotOfScoredTokens) {
  Rig rig;
  BoundedContext context;
  const auto stream = rig.generation->Score(&context);
  v1::ScoreRequest request;
  *request.mutable_open()->mutable_output() = AskAll();
  stream->Write(request);
  v1::ScoreResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// What clients take by default is 4 MiB.
TEST(RpcIntrospection, AMessageHoldsWhatMayWaitAndNoMore) {
  for (const auto& [layers, heads] : {std::pair{1, 1}, {12, 12}, {64, 300}}) {
    ModelDescription model{.width = 512};
    model.layers.assign(static_cast<size_t>(layers),
                        {{.name = "attn", .block = Attention{.heads = heads}},
                         {.name = "fast", .block = FastWeights{.heads = heads}}});
    int64_t positions = 0;
    while (IntrospectionBytes(model, kAll, positions + 1) <= kMaxIntrospectionBytes) {
      ++positions;
    }
    const auto parts = static_cast<size_t>(layers * heads);
    const Introspection one = {
        .fields = kAll,
        .hidden_state = std::vector(512, 0.5f),
        .memory_reads = {.layers = layers,
                         .heads = heads,
                         .first_index = int64_t{1} << 30,
                         .positions = positions,
                         .weights =
                             std::vector(parts * static_cast<size_t>(positions), 0.5f)},
        .update_norms = std::vector(parts, 0.5f),
        .state_norms = std::vector(parts, 0.5f)};
    v1::GenerateResponse message;
    ToMessage(TokenChunk{.tokens = {1, 2}, .introspections = {one, one}}, "", "m",
              message);
    EXPECT_GT(message.ByteSizeLong(), 1u << 20);
    EXPECT_LT(message.ByteSizeLong(), kMaxWaitingIntrospectionBytes + 1000);
  }
}

}  // namespace
}  // namespace mnemon::converse
