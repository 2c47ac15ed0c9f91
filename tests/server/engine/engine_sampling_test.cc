// SPDX-License-Identifier: MIT
// Rows that the threads of a pool sample are those that one thread samples.
#include "model/compute/thread_pool.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

TEST(EngineSampling, CallsOfAStepAreSampledByThePoolAsAlone) {
  // With the toy's vocabulary the pool takes part from 103 rows on.
  constexpr int32_t kCalls = 130;
  ThreadPool pool(3);
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    ToyServer server(ToyState::kAppend, {.sessions = kCalls,
                                         .running = kCalls,
                                         .pool = &pool,
                                         .sampling = &operations});
    server.decoder.Allow(0);
    std::vector<GenerateRequest> requests;
    std::vector<std::unique_ptr<Reader>> calls;
    for (int32_t i = 0; i < kCalls; ++i) {
      GenerateRequest request = Ask({i % ToyDecoder::kOrdinaryTokens, 3}, 20);
      request.sampling.top_p = 0.3 + 0.1 * (i % 8);
      request.sampling.temperature = 0.1 * (i % 20);
      request.sampling.repetition_penalty = i % 3 == 0 ? 1.2 : 1;
      request.logprobs.wanted = i % 5 == 0;
      requests.push_back(request);
      calls.push_back(std::make_unique<Reader>(*server.engine, request));
    }
    server.decoder.AllowAll();
    for (int32_t i = 0; i < kCalls; ++i) {
      const Outcome outcome = calls[i]->Finish();
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      SamplingParams params = Rounded(requests[i].sampling);
      params.seed = *requests[i].seed;
      EXPECT_EQ(outcome.tokens,
                ToyContinuation(ToyState::kAppend,
                                std::get<std::vector<int32_t>>(requests[i].prompt), 20,
                                params))
          << i;
    }
    EXPECT_GE(server.decoder.largest_step(), 110u);
  }
}

}  // namespace
}  // namespace mnemon
