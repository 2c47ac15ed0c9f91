// SPDX-License-Identifier: MIT
// The text that sessions are given depends on nothing but the session: not on the
// target, the number of threads, or which sessions a step has, in which order and
// pieces.
#include <algorithm>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/compute/step_options.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/operations/cpu_operations.h"
#include "model/program/step_decoder.h"
#include "model/sampling/sampling_team.h"
#include "tests/model/decoder/drawn_weights.h"

namespace mnemon {
namespace {

constexpr int kSessions = 6;

using Text = std::vector<int32_t>;

// One session: a prompt, then what is sampled, by parameters of its own.
struct Session {
  Session(int64_t vocab, int64_t most, int index)
      : length(std::min<int64_t>(most, 20 + 3 * index)),
        params{.temperature = index == 0 ? 0.0f : 0.9f,
               .top_p = index % 2 == 0 ? 1.0f : 0.9f,
               .repetition_penalty = index % 3 == 0 ? 1.2f : 1.0f,
               .seed = static_cast<uint64_t>(index)},
        penalties(params, vocab) {
    for (int64_t i = 0; i < std::max<int64_t>(1, length / 3); ++i) {
      tokens.push_back(static_cast<int32_t>((i * 5 + index) % vocab));
    }
  }

  const int64_t length;
  const SamplingParams params;
  PenaltyCounts penalties;
  Text tokens;
  int32_t slot = 0;
  int64_t fed = 0;
};

// All sessions to their ends, some in each step, as `seed` draws; 0: one after the
// other, token by token.
std::vector<Text> Texts(Decoder& decoder, const SamplingOperations& sampling,
                        ThreadPool& pool, uint64_t seed) {
  const int64_t vocab = decoder.model().vocab;
  const auto arena = *StateArena::Create(decoder.spec(), {.slots = kSessions});
  SamplingTeam team(&pool, sampling, vocab);
  std::mt19937_64 random(seed);
  std::vector<Session> sessions;
  std::vector<size_t> order;
  for (int i = 0; i < kSessions; ++i) {
    order.push_back(sessions.size());
    sessions.emplace_back(vocab, decoder.spec().max_positions(), i);
  }
  std::ranges::shuffle(order, random);
  for (const size_t i : order) sessions[i].slot = *arena->Acquire();
  for (bool left = true; left;) {
    left = false;
    std::vector<Segment> segments;
    std::vector<Session*> stepped;  // those whose logits are wanted
    for (const size_t i : order) {
      Session& s = sessions[i];
      if (s.fed == s.length) continue;
      if (seed == 0 && left) break;
      left = true;
      if (seed != 0 && random() % 3 == 0) continue;
      const int64_t waiting = static_cast<int64_t>(s.tokens.size()) - s.fed;
      const auto count =
          seed == 0
              ? 1
              : 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(waiting));
      const bool last = count == waiting;
      segments.push_back({.slot = s.slot,
                          .position = s.fed,
                          .tokens = std::span(s.tokens).subspan(
                              static_cast<size_t>(s.fed), static_cast<size_t>(count)),
                          .logits = last ? LogitsMode::kLast : LogitsMode::kNone});
      s.fed += count;
      if (last) stepped.push_back(&s);
    }
    if (segments.empty()) continue;
    const auto row_size = static_cast<size_t>(vocab);
    std::vector<float> logits(stepped.size() * row_size);
    EXPECT_TRUE(decoder.Step(segments, *arena, logits.data()).ok());
    for (const Session& s : sessions) arena->SetFloor(s.slot, s.fed);
    team.Run(
        static_cast<int64_t>(stepped.size()), vocab,
        [&](int64_t row, SamplerScratch& scratch) {
          Session& s = *stepped[static_cast<size_t>(row)];
          s.penalties.Update(s.tokens);
          s.tokens.push_back(*Sample(
              std::span(logits).subspan(static_cast<size_t>(row) * row_size, row_size),
              s.params, s.fed, scratch, s.penalties.counts()));
        });
  }
  std::vector<Text> texts;
  for (const Session& s : sessions) texts.push_back(s.tokens);
  return texts;
}

struct Case {
  ModelConfig config;
  ModelDescription model;

  friend void PrintTo(const Case& one, std::ostream* out) {
    *out << one.config.architecture;
  }
};

// Every variant, with heads wide enough for int8, a feed-forward of two slices, and
// logits enough for several threads to sample.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    for (ModelConfig config : entry.variants()) {
      config.heads = 4;
      config.d_model = 64;
      config.d_ff = 100;
      config.vocab = 1100;
      cases.push_back({config, entry.describe(config)});
    }
  }
  return cases;
}

using SampledTextTest = testing::TestWithParam<Case>;

TEST_P(SampledTextTest, DependsOnTheSessionAlone) {
  const ModelDescription& model = GetParam().model;
  const DrawnWeights weights(model);
  // The last of five workers has no head.
  ThreadPool alone(1), two(2), three(3), five(5);
  ThreadPool* const pools[] = {&two, &three, &five};
  uint64_t seed = 0;
  for (const WeightFormat format :
       {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8}) {
    std::vector<Text> wanted;
    for (const CpuOperations& operations : AllCpuOperations()) {
      if (IsReference(operations)) continue;
      const auto texts = [&](ThreadPool& pool, uint64_t schedule) {
        const std::unique_ptr<Decoder> decoder = *MakeStepDecoder(
            model, weights.views,
            {.format = format, .operations = &operations, .pool = &pool});
        return Texts(*decoder, SamplingOperationsOf(operations.target), pool, schedule);
      };
      if (wanted.empty()) wanted = texts(alone, 0);
      ThreadPool& pool = *pools[++seed % 3];
      EXPECT_EQ(texts(pool, seed), wanted) << operations.target << " " << NameOf(format)
                                           << ", " << pool.count() << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, SampledTextTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.config.architecture + "_" +
                                  std::to_string(info.index);
                         });

}  // namespace
}  // namespace mnemon
