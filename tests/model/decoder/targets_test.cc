// SPDX-License-Identifier: MIT
// The bits of whole steps and predictions are the same on every target and with any
// number of threads.
#include <algorithm>
#include <cstring>
#include <random>

#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/operations/cpu_operations.h"
#include "model/sequence/make_model.h"
#include "tests/model/decoder/variants.h"
#include "tests/model/description/random_descriptions.h"

namespace mnemon {
namespace {

constexpr int64_t kTokens = 70;  // of a session: more than four blocks
constexpr int32_t kTargetSlots = 5;

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Logits of all tokens of some sessions, which are stepped in pieces and in batches
// that `seed` draws: session by session, whatever the order.
std::vector<float> Logits(Decoder& decoder, uint64_t seed) {
  auto arena = StateArena::Create(decoder.spec(), {.slots = kTargetSlots});
  EXPECT_TRUE(arena.ok()) << arena.status();
  const int64_t length = std::min(kTokens, decoder.spec().max_positions());
  const auto vocab = static_cast<size_t>(decoder.model().vocab);
  std::vector<std::vector<int32_t>> tokens(kTargetSlots);
  std::vector<std::vector<float>> logits(kTargetSlots);
  std::vector<int32_t> slots;
  for (std::vector<int32_t>& some : tokens) {
    slots.push_back(*(*arena)->Acquire());
    for (int64_t i = 0; i < length; ++i) {
      some.push_back(
          static_cast<int32_t>((i * 7 + slots.back() * 3) % decoder.model().vocab));
    }
  }
  std::mt19937_64 random(seed);
  for (bool left = true; left;) {
    left = false;
    std::vector<Segment> segments;
    std::vector<size_t> whose;
    for (size_t s = 0; s < tokens.size(); ++s) {
      const int64_t at = (*arena)->length(slots[s]);
      left = left || at < length;
      if (at == length || random() % 3 == 0) continue;
      const auto count = std::min<int64_t>(length - at, 1 + random() % 20);
      segments.push_back({.slot = slots[s],
                          .position = at,
                          .tokens = {tokens[s].data() + at, static_cast<size_t>(count)},
                          .logits = LogitsMode::kAll});
      whose.push_back(s);
    }
    size_t rows = 0;
    for (const Segment& segment : segments) rows += segment.tokens.size();
    std::vector<float> all(rows * vocab);
    const absl::Status status = decoder.Step(segments, **arena, all.data());
    EXPECT_TRUE(status.ok()) << status;
    auto from = all.begin();
    for (size_t i = 0; i < segments.size(); ++i) {
      const auto count = static_cast<ptrdiff_t>(segments[i].tokens.size() * vocab);
      logits[whose[i]].insert(logits[whose[i]].end(), from, from + count);
      from += count;
      (*arena)->SetFloor(segments[i].slot, (*arena)->length(segments[i].slot));
    }
  }
  std::vector<float> joined;
  for (const std::vector<float>& some : logits) {
    joined.insert(joined.end(), some.begin(), some.end());
  }
  return joined;
}

std::vector<float> Predicted(Predictor& predictor) {
  Predictor::Input input{.batch = 3};
  const int64_t length = std::min<int64_t>(40, predictor.max_positions());
  for (int64_t i = 0; i < 3 * length; ++i) {
    input.tokens.push_back(static_cast<int32_t>(i * 5 % predictor.model().vocab));
  }
  auto output = predictor.Predict(std::move(input));
  EXPECT_TRUE(output.ok()) << output.status();
  return {output->logits.begin(), output->logits.end()};
}

using TargetsTest = testing::TestWithParam<ModelDescription>;

TEST_P(TargetsTest, GiveTheSameBits) {
  const std::unique_ptr<Model> model = MakeTestModel(GetParam());
  ThreadPool one(1), three(3);
  for (const WeightFormat format :
       {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8}) {
    std::vector<float> wanted;
    uint64_t seed = 0;
    for (const std::string& target : CpuTargets()) {
      if (target == "reference") continue;
      for (ThreadPool* const pool : {&one, &three}) {
        const DecoderOptions options{.format = format, .target = target, .pool = pool};
        std::vector<float> found;
        if (!GetParam().whole_sequences) {
          found = Logits(*MakeDecoder(*model, options).value(), ++seed);
        } else {
          found = Predicted(*MakePredictor(*model, options).value());
        }
        if (wanted.empty()) wanted = found;
        EXPECT_TRUE(SameBits(found, wanted)) << target << " " << pool->count();
      }
    }
  }
}

std::vector<ModelDescription> AllModels() {
  std::vector<ModelDescription> all = RandomDescriptions(/*whole=*/true);
  for (const ModelConfig& config : AllVariants()) all.push_back(*DescribeModel(config));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, TargetsTest, testing::ValuesIn(AllModels()));

}  // namespace
}  // namespace mnemon
