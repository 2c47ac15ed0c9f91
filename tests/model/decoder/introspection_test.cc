// SPDX-License-Identifier: MIT
// Introspection of the step forms of each architecture: it changes no bit, depends on a
// session's own history alone, and shows what the sequence form computes.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>

#include "model/compute/tensor_names.h"
#include "model/compute/thread_pool.h"
#include "model/operations/cpu_operations.h"
#include "model/sequence/default_decoder.h"
#include "model/sequence/make_model.h"
#include "tests/model/decoder/variants.h"

namespace mnemon {
namespace {

constexpr double kViewTolerance = 1e-5;
constexpr double kInt8ViewTolerance = 8e-2;

struct Viewed {
  ModelConfig config;
  WeightFormat format = WeightFormat::kFp32;
  std::string target = {};
};

std::vector<Viewed> AllViewed() {
  std::vector<Viewed> all;
  for (const ModelConfig& config : AutoregressiveVariants()) {
    for (const std::string& target : CpuTargets()) {
      all.push_back({config, WeightFormat::kFp32, target});
    }
    all.push_back({config, WeightFormat::kInt8, CpuTargets().front()});
  }
  return all;
}

std::string ViewedName(const testing::TestParamInfo<Viewed>& info) {
  const Viewed& served = info.param;
  return VariantName({served.config, info.index}) + "_" + served.target + "_" +
         NameOf(served.format);
}

// max |a - b| / max(1, max |b|).
double ViewsApart(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / std::max(1.0, b.abs().max().item<double>()))
      .item<double>();
}

at::Tensor Tensor(std::vector<float> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}).clone();
}

class IntrospectionTest : public testing::TestWithParam<Viewed> {
 protected:
  IntrospectionTest() {
    auto arena = StateArena::Create(decoder_->spec(), {.slots = 66});
    EXPECT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
  }
  std::unique_ptr<Decoder> MustMakeDecoder(ThreadPool* pool) const {
    auto decoder = MakeDecoder(
        *model_,
        {.format = GetParam().format, .target = GetParam().target, .pool = pool});
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    return *std::move(decoder);
  }

  const ModelConfig& config() const { return GetParam().config; }
  bool attends() const { return decoder_->introspection().memory_reads; }
  static double Tolerance() {
    return GetParam().format == WeightFormat::kInt8 ? kInt8ViewTolerance
                                                    : kViewTolerance;
  }
  // Tokens that the sequence form can take in one call.
  int64_t Longest() const {
    return SegmentationFree(config(),
                            std::min<int64_t>(decoder_->spec().max_positions(), 40));
  }
  int32_t MustAcquire() {
    const absl::StatusOr<int32_t> slot = arena_->Acquire();
    EXPECT_TRUE(slot.ok()) << slot.status();
    return *slot;
  }
  Introspection All() const { return {.fields = decoder_->introspection()}; }
  Segment SegmentOf(int32_t slot, std::span<const int32_t> tokens,
                    Introspection* introspection) const {
    return {.slot = slot,
            .position = arena_->length(slot),
            .tokens = tokens,
            .introspection = introspection};
  }
  // Logits after the last token of each segment.
  std::vector<float> MustStep(std::span<const Segment> segments,
                              Decoder* decoder = nullptr) {
    if (decoder == nullptr) decoder = decoder_.get();
    std::vector<float> logits(segments.size() * config().vocab);
    const absl::Status status = decoder->Step(segments, *arena_, logits.data());
    EXPECT_TRUE(status.ok()) << status;
    for (const Segment& segment : segments) {
      arena_->SetFloor(segment.slot, arena_->length(segment.slot));
    }
    return logits;
  }
  std::vector<float> MustStep(int32_t slot, int32_t token,
                              Introspection* introspection) {
    const Segment segment = SegmentOf(slot, {&token, 1}, introspection);
    return MustStep({&segment, 1});
  }
  // The matrix of a layer's head as it is in the arena.
  std::vector<float> MatrixOf(int32_t slot, int64_t layer, int64_t head) const {
    const auto* const fast = FirstBlock<FastWeights>(model_->description());
    const int64_t size = fast->features() * fast->width;
    const float* const w = std::as_const(*arena_).Fixed(
        slot, static_cast<int>(layer * (fast->normalised ? 2 : 1)));
    return {w + head * size, w + (head + 1) * size};
  }

  const std::unique_ptr<Model> model_ = MakeTestModel(GetParam().config);
  const std::unique_ptr<Decoder> decoder_ = MustMakeDecoder(nullptr);
  std::unique_ptr<StateArena> arena_;
};

TEST_P(IntrospectionTest, HasWhatTheArchitectureHas) {
  const bool fast = config().architecture == "fast_weights";
  EXPECT_EQ(decoder_->introspection(), (IntrospectionFields{.hidden_state = true,
                                                            .memory_reads = !fast,
                                                            .update_norms = fast,
                                                            .state_norms = fast}));
}

TEST_P(IntrospectionTest, ChangesNoBit) {
  const int64_t time = std::min<int64_t>(decoder_->spec().max_positions(), 40);
  const std::vector<int32_t> tokens = Ids(RandomTokens(config(), 1, time));
  const int32_t plain = MustAcquire(), viewed = MustAcquire();
  for (const int32_t& token : tokens) {
    const std::vector<float> expected = MustStep(plain, token, nullptr);
    Introspection all = All();
    EXPECT_EQ(MustStep(viewed, token, &all), expected);
  }
  // One step with another segment that does not ask, and has several tokens.
  arena_->Reset(plain);
  arena_->Reset(viewed);
  const int32_t other = MustAcquire();
  for (const int32_t& token : tokens) {
    const std::vector<float> alone = MustStep(plain, token, nullptr);
    if (arena_->length(other) + 3 > decoder_->spec().max_positions()) break;
    Introspection all = All();
    const std::vector<int32_t> three = {1, 0, 2};
    const std::vector<Segment> segments = {SegmentOf(other, three, nullptr),
                                           SegmentOf(viewed, {&token, 1}, &all)};
    const std::vector<float> both = MustStep(segments);
    EXPECT_EQ(std::vector(both.begin() + config().vocab, both.end()), alone);
  }
}

TEST_P(IntrospectionTest, ReadsAreTheWeightsOfTheSequenceForm) {
  if (!attends()) return;
  const at::Tensor tokens = RandomTokens(config(), 1, Longest());
  const std::vector<at::Tensor> maps =
      MustForward(*model_, tokens, {}, {.maps = AttentionMaps::kUsed}).maps;
  const int32_t slot = MustAcquire();
  const std::vector<int32_t> ids = Ids(tokens);
  for (int64_t t = 0; t < tokens.size(1); ++t) {
    Introspection all = All();
    MustStep(slot, ids[t], &all);
    const MemoryReads& reads = all.memory_reads;
    EXPECT_EQ(reads.layers, config().layers);
    EXPECT_EQ(reads.heads, config().heads);
    const bool before = config().architecture.starts_with("feedback");
    EXPECT_EQ(reads.first_index + reads.positions, before ? t : t + 1);
    ASSERT_EQ(static_cast<int64_t>(reads.weights.size()),
              reads.layers * reads.heads * reads.positions);
    if (reads.positions == 0) continue;
    for (int64_t l = 0; l < reads.layers; ++l) {
      for (int64_t h = 0; h < reads.heads; ++h) {
        const auto at = reads.weights.begin() + (l * reads.heads + h) * reads.positions;
        const at::Tensor weights = Tensor({at, at + reads.positions});
        EXPECT_NEAR(weights.sum().item<double>(), 1.0, 1e-6);
        const at::Tensor row = maps[l][0][h][t];
        EXPECT_LE(
            ViewsApart(weights, row.narrow(0, reads.first_index, reads.positions)),
            Tolerance());
        // What is not shown got nothing.
        EXPECT_NEAR(row.narrow(0, 0, reads.first_index).sum().item<double>(), 0, 0);
      }
    }
  }
}

// Compared with the fast weights in the arena and in the sequence form.
TEST_P(IntrospectionTest, NormsAreThoseOfTheFastWeights) {
  if (attends()) return;
  const int32_t slot = MustAcquire();
  const at::Tensor tokens = RandomTokens(config(), 1, Longest());
  const std::vector<int32_t> ids = Ids(tokens);
  const size_t entries = config().normalise == Normalise::kZ ? 2 : 1;
  Carry carry;
  for (int64_t t = 0; t < tokens.size(1); ++t) {
    std::vector<std::vector<float>> before, after;
    const auto read = [&](std::vector<std::vector<float>>& to) {
      for (int64_t l = 0; l < config().layers; ++l) {
        for (int64_t h = 0; h < config().heads; ++h) {
          to.push_back(MatrixOf(slot, l, h));
        }
      }
    };
    read(before);
    Introspection all = All();
    MustStep(slot, ids[t], &all);
    read(after);
    ASSERT_EQ(all.update_norms.size(), after.size());
    ASSERT_EQ(all.state_norms.size(), after.size());
    const Carry next = MustForward(*model_, tokens.narrow(1, t, 1), carry).carry;
    for (size_t i = 0; i < after.size(); ++i) {
      const at::Tensor w = Tensor(after[i]).to(at::kDouble);
      const double change = (w - Tensor(before[i])).norm().item<double>();
      EXPECT_NEAR(all.update_norms[i], change, 1e-6 * (1 + change));
      const double norm = w.norm().item<double>();
      EXPECT_NEAR(all.state_norms[i], norm, 1e-6 * (1 + norm));
      EXPECT_GT(change, 0);

      const auto layer = i / config().heads;
      const auto head = static_cast<int64_t>(i) % config().heads;
      at::Tensor expected = next.tensors[layer * entries][0][head];
      EXPECT_NEAR(norm, expected.norm().item<double>(), Tolerance() * (1 + norm));
      if (t > 0) expected = expected - carry.tensors[layer * entries][0][head];
      EXPECT_NEAR(change, expected.norm().item<double>(), Tolerance() * (1 + norm));
    }
    carry = next;
  }
}

TEST_P(IntrospectionTest, HiddenStateIsWhatTheHeadMultiplies) {
  at::Tensor head, bias;
  const std::string base = config().tie_head ? names::kEmbed : names::kHead;
  model_->Visit([&](const std::string& name, at::Tensor& weight) {
    if (name == base + ".weight") head = weight;
    if (name == base + ".bias") bias = weight;
  });
  const int32_t slot = MustAcquire();
  for (const int32_t token : Ids(RandomTokens(config(), 1, Longest()))) {
    Introspection all = All();
    const std::vector<float> logits = MustStep(slot, token, &all);
    ASSERT_EQ(static_cast<int64_t>(all.hidden_state.size()), config().d_model);
    EXPECT_LE(
        ViewsApart(at::linear(Tensor(all.hidden_state), head, bias), Tensor(logits)),
        Tolerance());
  }
}

TEST_P(IntrospectionTest, GivesTheFieldsThatAreNamedAlone) {
  const Introspection whole = [&] {
    const int32_t slot = MustAcquire();
    MustStep(slot, 1, nullptr);
    Introspection all = All();
    MustStep(slot, 2, &all);
    return all;
  }();
  for (const IntrospectionField& one : kIntrospectionFields) {
    if (!(decoder_->introspection().*one.field)) continue;
    const int32_t slot = MustAcquire();
    MustStep(slot, 1, nullptr);
    Introspection some = All();
    MustStep(slot, 2, &some);
    EXPECT_EQ(some, whole);  // also where one is filled again
    arena_->Truncate(slot, 0);
    arena_->Reset(slot);
    MustStep(slot, 1, nullptr);
    some.fields = {};
    some.fields.*one.field = true;
    MustStep(slot, 2, &some);
    Introspection expected = {.fields = some.fields};
    if (some.fields.hidden_state) expected.hidden_state = whole.hidden_state;
    if (some.fields.memory_reads) expected.memory_reads = whole.memory_reads;
    if (some.fields.update_norms) expected.update_norms = whole.update_norms;
    if (some.fields.state_norms) expected.state_norms = whole.state_norms;
    EXPECT_EQ(some, expected) << one.name;
  }
}

// Sessions of unlike length in random shares, some of which ask.
TEST_P(IntrospectionTest, SameInAnyBatchAndThreadCount) {
  constexpr int kSessions = 14;
  const int64_t longest = std::min<int64_t>(decoder_->spec().max_positions(), 20);
  std::vector<std::vector<int32_t>> tokens(kSessions);
  std::vector<std::vector<Introspection>> alone(kSessions);
  for (int s = 0; s < kSessions; ++s) {
    tokens[s] =
        Ids(RandomTokens(config(), 1, std::min<int64_t>(longest, 5 + 3 * s % 17), s));
    const int32_t slot = MustAcquire();
    for (const int32_t token : tokens[s]) {
      alone[s].push_back(All());
      MustStep(slot, token, &alone[s].back());
    }
    arena_->Release(slot);
  }
  std::mt19937 random(5);
  int64_t asked = 0;
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    const std::unique_ptr<Decoder> decoder = MustMakeDecoder(&pool);
    std::vector<int32_t> slots(kSessions);
    for (int32_t& slot : slots) slot = MustAcquire();
    for (bool more = true; more;) {
      std::vector<Segment> segments;
      std::vector<std::unique_ptr<Introspection>> got;
      std::vector<const Introspection*> expected;
      more = false;
      std::vector<int> order(kSessions);
      for (int s = 0; s < kSessions; ++s) order[s] = s;
      std::shuffle(order.begin(), order.end(), random);
      for (const int s : order) {
        const int64_t done = arena_->length(slots[s]);
        const int64_t left = static_cast<int64_t>(tokens[s].size()) - done;
        more = more || left > 0;
        const int64_t count = std::min<int64_t>(left, random() % 4);
        if (count == 0) continue;
        const bool asks = count == 1 && random() % 3 != 0;
        if (asks) {
          got.push_back(std::make_unique<Introspection>(All()));
          expected.push_back(&alone[s][done]);
        }
        segments.push_back(SegmentOf(slots[s],
                                     std::span(tokens[s]).subspan(done, count),
                                     asks ? got.back().get() : nullptr));
      }
      if (segments.empty()) continue;
      MustStep(segments, decoder.get());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(*got[i], *expected[i]);
      asked += static_cast<int64_t>(got.size());
    }
    for (const int32_t slot : slots) arena_->Release(slot);
  }
  EXPECT_GT(asked, 20);
}

// More positions than a group of attention has, and than a ring holds at first.
TEST_P(IntrospectionTest, SeesNoMoreThanTheWindow) {
  if (!attends()) return;
  const int64_t time = std::min<int64_t>(decoder_->spec().max_positions(), 700);
  const int32_t slot = MustAcquire();
  const std::vector<int32_t> tokens = Ids(RandomTokens(config(), 1, time));
  for (int64_t t = 0; t < time; ++t) {
    const bool looks = t + 3 >= time;
    Introspection all = All();
    MustStep(slot, tokens[t], looks ? &all : nullptr);
    if (!looks) continue;
    const MemoryReads& reads = all.memory_reads;
    EXPECT_LE(reads.positions, MostSeen(decoder_->spec(), t + 1));
    EXPECT_LE(BytesOf(all) - static_cast<int64_t>(sizeof(all)),
              IntrospectionBytes(decoder_->model(), all.fields, reads.positions));
    for (int64_t i = 0; i < reads.layers * reads.heads; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < reads.positions; ++j) {
        sum += reads.weights[i * reads.positions + j];
      }
      EXPECT_NEAR(sum, 1.0, 1e-5);
    }
  }
}

TEST_P(IntrospectionTest, RefusesWhatThereIsNot) {
  const int32_t slot = MustAcquire();
  const std::vector<int32_t> tokens = {1, 2};
  std::vector<float> logits(config().vocab);
  const auto code = [&](std::span<const int32_t> some, IntrospectionFields fields) {
    Introspection wanted = {.fields = fields};
    const Segment segment = SegmentOf(slot, some, &wanted);
    return decoder_->Step({&segment, 1}, *arena_, logits.data()).code();
  };
  EXPECT_EQ(code(tokens, {.hidden_state = true}), absl::StatusCode::kInvalidArgument);
  const std::span one = std::span(tokens).first(1);
  const IntrospectionFields missing = {.memory_reads = !attends(),
                                       .update_norms = attends()};
  EXPECT_EQ(code(one, missing), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(arena_->length(slot), 0);
  EXPECT_EQ(code(one, {.hidden_state = true}), absl::StatusCode::kOk);
}

INSTANTIATE_TEST_SUITE_P(Variants, IntrospectionTest, testing::ValuesIn(AllViewed()),
                         ViewedName);

TEST(Introspection, TheDefaultDecoderHasNone) {
  const std::unique_ptr<Model> model = MakeTestModel(AutoregressiveVariants().front());
  const std::unique_ptr<Decoder> decoder = MakeDefaultDecoder(*model);
  EXPECT_FALSE(decoder->introspection().any());
  auto arena = StateArena::Create(decoder->spec(), {.slots = 1});
  ASSERT_TRUE(arena.ok()) << arena.status();
  Introspection wanted = {.fields = {.hidden_state = true}};
  const int32_t token = 1;
  const Segment segment{.slot = *(*arena)->Acquire(),
                        .tokens = {&token, 1},
                        .logits = LogitsMode::kNone,
                        .introspection = &wanted};
  EXPECT_EQ(decoder->Step({&segment, 1}, **arena, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mnemon
