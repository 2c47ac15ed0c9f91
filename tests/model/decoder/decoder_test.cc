// SPDX-License-Identifier: MIT
// The decoders of each architecture, in every precision and on every target: they equal
// the sequence form, and their bits depend on a session's own history alone.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>

#include "base/strings.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/operations/cpu_operations.h"
#include "model/sequence/default_decoder.h"
#include "model/sequence/make_model.h"
#include "model/sequence/runtime.h"
#include "tests/model/decoder/variants.h"
#include "tests/model/description/random_descriptions.h"

namespace mnemon {
namespace {

constexpr double kTolerance = 2e-5;
constexpr double kInt8Tolerance = 8e-2;  // drawn weights of D 8 to 16
constexpr int32_t kSlots = 66;

// max |a - b| / max |b|.
double Apart(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// What a model is stepped by.
struct Served {
  ModelDescription model;
  std::string name;
  bool step_form = false;  // else the default decoder
  WeightFormat format = WeightFormat::kFp32;
  std::string target = {};
};

std::vector<Served> AllServed() {
  std::vector<Served> all;
  for (const ModelConfig& config : AutoregressiveVariants()) {
    const std::string name = VariantName({config, 0});
    const ModelDescription model = *DescribeModel(config);
    all.push_back({model, name});
    for (const std::string& target : CpuTargets()) {
      for (const WeightFormat format :
           {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8}) {
        all.push_back({model, name, true, format, target});
      }
    }
  }
  for (const ModelDescription& model : RandomDescriptions(/*whole=*/false)) {
    const std::string name = StrCat("random_", all.size());
    all.push_back({model, name});
    all.push_back({model, name, true, WeightFormat::kFp32, CpuTargets().front()});
  }
  return all;
}

std::string ServedName(const testing::TestParamInfo<Served>& info) {
  const Served& served = info.param;
  const std::string& variant = served.name;
  if (!served.step_form) return variant + "_default";
  return variant + "_" + served.target + "_" + NameOf(served.format);
}

// The weights fit bfloat16, so that both forms use the same.
std::unique_ptr<Model> MakeServedModel(const Served& served) {
  std::unique_ptr<Model> model = MakeTestModel(served.model);
  if (served.format == WeightFormat::kBf16) {
    model->Visit([](const std::string&, at::Tensor& weight) {
      weight.copy_(weight.to(at::kBFloat16));
    });
  }
  return model;
}

class DecoderTest : public testing::TestWithParam<Served> {
 protected:
  DecoderTest() { arena_ = MakeArena(decoder_->spec()); }

  static std::unique_ptr<StateArena> MakeArena(const StateSpec& spec) {
    auto arena = StateArena::Create(spec, {.slots = kSlots});
    EXPECT_TRUE(arena.ok()) << arena.status();
    return *std::move(arena);
  }
  std::unique_ptr<Decoder> MustMakeDecoder(const Model& model, ThreadPool* pool) const {
    if (!GetParam().step_form) return MakeDefaultDecoder(model);
    auto decoder = MakeDecoder(
        model,
        {.format = GetParam().format, .target = GetParam().target, .pool = pool});
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    return *std::move(decoder);
  }

  const ModelDescription& model() const { return GetParam().model; }
  static double Tolerance() {
    return GetParam().format == WeightFormat::kInt8 ? kInt8Tolerance : kTolerance;
  }
  int32_t MustAcquire() {
    const absl::StatusOr<int32_t> slot = arena_->Acquire();
    EXPECT_TRUE(slot.ok()) << slot.status();
    return *slot;
  }
  // Logits of one segment, [T, V].
  std::vector<float> MustStep(int32_t slot, std::span<const int32_t> tokens,
                              Decoder* decoder = nullptr) {
    if (decoder == nullptr) decoder = decoder_.get();
    std::vector<float> logits(tokens.size() * model().vocab);
    const Segment segment{.slot = slot,
                          .position = arena_->length(slot),
                          .tokens = tokens,
                          .logits = LogitsMode::kAll};
    const absl::Status status = decoder->Step({&segment, 1}, *arena_, logits.data());
    EXPECT_TRUE(status.ok()) << status;
    arena_->SetFloor(slot, arena_->length(slot));
    return logits;
  }
  at::Tensor AsTensor(std::vector<float>& logits) const {
    const int64_t rows = static_cast<int64_t>(logits.size()) / model().vocab;
    at::Tensor tensor = at::empty({1, rows, model().vocab});
    std::copy(logits.begin(), logits.end(), tensor.data_ptr<float>());
    return tensor;
  }

  const std::unique_ptr<Model> model_ = MakeServedModel(GetParam());
  const std::unique_ptr<Decoder> decoder_ = MustMakeDecoder(*model_, nullptr);
  std::unique_ptr<StateArena> arena_;
};

TEST_P(DecoderTest, EqualsTheSequenceForm) {
  // Endless states run for several blocks of the arena and several windows.
  const int64_t longest = std::min<int64_t>(decoder_->spec().max_positions(), 60);
  const int64_t time = SegmentationFree(model(), longest);
  const at::Tensor tokens = RandomTokens(model(), 1, time);
  std::vector<float> logits = MustStep(MustAcquire(), Ids(tokens));
  EXPECT_LE(Apart(AsTensor(logits), MustForward(*model_, tokens).logits), Tolerance());
}

TEST_P(DecoderTest, ContinuesAnImportedCarry) {
  const int64_t time = SegmentationFree(model(), 10), before = time / 2;
  const at::Tensor tokens = RandomTokens(model(), 1, time);
  Carry carry;
  if (before > 0) carry = MustForward(*model_, tokens.narrow(1, 0, before)).carry;
  const int32_t slot = MustAcquire();
  const TensorViews views = ViewCarry(model_->carry_spec(), carry);
  ASSERT_TRUE(decoder_->Import(before, views, *arena_, slot).ok());
  EXPECT_EQ(arena_->length(slot), before);

  const at::Tensor rest = tokens.narrow(1, before, time - before);
  std::vector<float> logits = MustStep(slot, Ids(rest));
  EXPECT_LE(Apart(AsTensor(logits), MustForward(*model_, rest, carry).logits),
            Tolerance());
}

// More tokens than the state holds rows of.
TEST_P(DecoderTest, ContinuesACarryFarAfterItsStart) {
  if (decoder_->spec().growth() != Growth::kRing) return;
  const int64_t before =
      std::min(decoder_->spec().capacity() + 150, decoder_->spec().max_positions() - 5);
  const at::Tensor tokens = RandomTokens(model(), 1, before + 5);
  Carry carry;
  for (int64_t t = 0; t < before; ++t) {
    carry = MustForward(*model_, tokens.narrow(1, t, 1), carry).carry;
  }
  const int32_t slot = MustAcquire();
  const TensorViews views = ViewCarry(model_->carry_spec(), carry);
  ASSERT_TRUE(decoder_->Import(before, views, *arena_, slot).ok());
  EXPECT_EQ(arena_->length(slot), before);
  for (int64_t t = before; t < before + 5; ++t) {
    const at::Tensor token = tokens.narrow(1, t, 1);
    std::vector<float> logits = MustStep(slot, Ids(token));
    const ForwardResult expected = MustForward(*model_, token, carry);
    EXPECT_LE(Apart(AsTensor(logits), expected.logits), Tolerance());
    carry = expected.carry;
  }
}

// Weights that are finite, but their products are not: the step fails, and a state from
// before goes on as if it had not been.
TEST_P(DecoderTest, AStateThatIsNotFiniteIsNoState) {
  if (decoder_->spec().entries.empty()) return;
  const int64_t time = SegmentationFree(model(), 10), before = time / 2;
  const std::vector<int32_t> tokens = Ids(RandomTokens(model(), 1, time));
  const std::span all(tokens), first = all.first(before), rest = all.subspan(before);
  const int32_t whole = MustAcquire(), slot = MustAcquire();
  if (before > 0) MustStep(whole, first);
  const std::vector<float> expected = MustStep(whole, rest);
  if (before > 0) MustStep(slot, first);
  SavedFixed fixed = arena_->saved().SaveFixed(slot);

  const std::unique_ptr<Model> huge = MakeServedModel(GetParam());
  huge->Visit([](const std::string&, at::Tensor& weight) {
    weight.copy_(at::where(weight.lt(0), at::full_like(weight, -3e38f),
                           at::full_like(weight, 3e38f)));
  });
  const std::unique_ptr<Decoder> fails = MustMakeDecoder(*huge, nullptr);
  const Segment segment{
      .slot = slot, .position = before, .tokens = rest, .logits = LogitsMode::kNone};
  const absl::Status status = fails->Step({&segment, 1}, *arena_, nullptr);
  EXPECT_TRUE(IsNonFiniteState(status)) << status;
  EXPECT_EQ(arena_->length(slot), before);

  if (!fixed.empty()) arena_->saved().RestoreFixed(slot, fixed, before);
  arena_->saved().Drop(fixed);
  EXPECT_EQ(MustStep(slot, rest), expected);
}

TEST_P(DecoderTest, RefusesACarryThatIsNotFinite) {
  const ForwardResult result = MustForward(*model_, RandomTokens(model(), 1, 3));
  for (size_t i = 0; i < result.carry.tensors.size(); ++i) {
    Carry carry = result.carry;
    carry.tensors[i] = carry.tensors[i].clone();
    carry.tensors[i].view(-1)[-1] = NAN;
    const TensorViews views = ViewCarry(model_->carry_spec(), carry);
    const int32_t slot = MustAcquire();
    EXPECT_TRUE(IsNonFiniteState(decoder_->Import(3, views, *arena_, slot)));
    EXPECT_EQ(arena_->length(slot), 0);
    arena_->Release(slot);
  }
}

TEST_P(DecoderTest, RefusesACarryThatDoesNotFit) {
  const ForwardResult result = MustForward(*model_, RandomTokens(model(), 1, 3));
  TensorViews views = ViewCarry(model_->carry_spec(), result.carry);
  const int32_t slot = MustAcquire();
  const auto code = [&](int64_t position, const TensorViews& carry) {
    return decoder_->Import(position, carry, *arena_, slot).code();
  };
  EXPECT_EQ(code(-1, views), absl::StatusCode::kInvalidArgument);
  if (views.empty()) return;
  EXPECT_EQ(code(0, views), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(3, {}), absl::StatusCode::kInvalidArgument);
  TensorViews wrong = views;
  wrong[0].shape.back() += 1;
  EXPECT_EQ(code(3, wrong), absl::StatusCode::kInvalidArgument);
  wrong = views;
  wrong[0].name += "x";
  EXPECT_EQ(code(3, wrong), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(arena_->length(slot), 0);
  MustStep(slot, std::vector<int32_t>{1});
  EXPECT_EQ(code(3, views), absl::StatusCode::kInvalidArgument);  // not fresh
}

// Sessions of unlike length, computed in rounds of random shares, order and slots, with
// one to four threads: 64 of them, up to three blocks long, where the bits are not only
// those of another target (TargetsTest).
TEST_P(DecoderTest, SameBitsInAnyBatchSlotOrderSplitAndThreadCount) {
  const bool other = GetParam().target != CpuTargets().front();
  const int sessions = !GetParam().step_form ? 4 : other ? 16 : 64;
  const int64_t longest = std::min<int64_t>(decoder_->spec().max_positions(), 41);
  std::vector<std::vector<int32_t>> tokens(sessions);
  std::vector<std::vector<float>> alone(sessions);
  for (int s = 0; s < sessions; ++s) {
    const int64_t count = std::min<int64_t>(longest, 5 + 2 * (s % 19));
    tokens[s] = Ids(RandomTokens(model(), 1, count, s));
    const int32_t slot = MustAcquire();
    for (const int32_t& token : tokens[s]) {
      const std::vector<float> row = MustStep(slot, {&token, 1});
      alone[s].insert(alone[s].end(), row.begin(), row.end());
    }
    arena_->Release(slot);
  }
  at::Generator generator = MakeGenerator(7);
  const auto random = [&](int64_t bound) {
    return at::empty({1}, at::kLong).random_(0, bound, generator).item<int64_t>();
  };
  for (const int threads : {1, 2, 3, 4}) {
    if (!GetParam().step_form) InitTensorRuntime(threads);
    ThreadPool pool(GetParam().step_form ? threads : 1);
    const std::unique_ptr<Decoder> decoder = MustMakeDecoder(*model_, &pool);
    std::vector<int32_t> slots(kSlots);
    for (int32_t& slot : slots) slot = MustAcquire();
    std::vector<std::vector<float>> batched(sessions);
    std::vector<int> order(sessions);
    std::iota(order.begin(), order.end(), 0);
    for (bool more = true; more;) {
      for (int s = sessions; --s > 0;) std::swap(order[s], order[random(s + 1)]);
      std::vector<Segment> segments;
      std::vector<int> stepped;
      more = false;
      for (const int s : order) {
        const int32_t slot = slots[kSlots - 1 - s];
        const int64_t done = arena_->length(slot);
        const int64_t left = static_cast<int64_t>(tokens[s].size()) - done;
        more = more || left > 0;
        const int64_t count = std::min<int64_t>(left, random(6));
        if (count == 0) continue;
        segments.push_back({.slot = slot,
                            .position = done,
                            .tokens = std::span(tokens[s]).subspan(done, count),
                            .logits = LogitsMode::kAll});
        stepped.push_back(s);
      }
      std::vector<float> logits(LogitsRows(segments) * model().vocab);
      ASSERT_TRUE(decoder->Step(segments, *arena_, logits.data()).ok());
      const float* row = logits.data();
      for (size_t i = 0; i < segments.size(); ++i) {
        const size_t count = segments[i].tokens.size() * model().vocab;
        batched[stepped[i]].insert(batched[stepped[i]].end(), row, row + count);
        row += count;
      }
    }
    EXPECT_EQ(batched, alone) << threads << " threads";
    for (const int32_t slot : slots) arena_->Release(slot);
  }
  InitTensorRuntime(1);
}

// Prompts of like length that could go to eight of nine workers.
TEST_P(DecoderTest, SameBitsWithMoreWorkersThanPrompts) {
  const int64_t length = std::min<int64_t>(decoder_->spec().max_positions(), 20);
  std::vector<std::vector<int32_t>> tokens;
  std::vector<float> alone;
  for (int s = 0; s < 8; ++s) {
    tokens.push_back(Ids(RandomTokens(model(), 1, length, s)));
    const int32_t slot = MustAcquire();
    const std::vector<float> rows = MustStep(slot, tokens[s]);
    alone.insert(alone.end(), rows.begin(), rows.end());
    arena_->Release(slot);
  }
  ThreadPool pool(9);
  const std::unique_ptr<Decoder> decoder = MustMakeDecoder(*model_, &pool);
  std::vector<Segment> segments;
  for (const std::vector<int32_t>& prompt : tokens) {
    segments.push_back(
        {.slot = MustAcquire(), .tokens = prompt, .logits = LogitsMode::kAll});
  }
  std::vector<float> together(alone.size());
  ASSERT_TRUE(decoder->Step(segments, *arena_, together.data()).ok());
  EXPECT_EQ(together, alone);
}

TEST_P(DecoderTest, WritesTheLogitsAskedFor) {
  const std::vector<int32_t> tokens = Ids(RandomTokens(model(), 1, 4));
  const std::vector<float> all = MustStep(MustAcquire(), tokens);
  std::vector<Segment> segments;
  for (const LogitsMode mode :
       {LogitsMode::kNone, LogitsMode::kLast, LogitsMode::kAll}) {
    segments.push_back({.slot = MustAcquire(), .tokens = tokens, .logits = mode});
  }
  std::vector<float> logits(5 * model().vocab);
  ASSERT_TRUE(decoder_->Step(segments, *arena_, logits.data()).ok());
  std::vector<float> expected(all.end() - model().vocab, all.end());
  expected.insert(expected.end(), all.begin(), all.end());
  EXPECT_EQ(logits, expected);
  // No logits wanted, no place for them.
  segments = {{.slot = segments[0].slot,
               .position = 4,
               .tokens = tokens,
               .logits = LogitsMode::kNone}};
  EXPECT_TRUE(decoder_->Step(segments, *arena_, nullptr).ok());
}

// A model whose Forward breaks at a chosen call.
class BreakingModel final : public Model {
 public:
  BreakingModel(const Model& model, int good_calls)
      : model_(model), good_calls_(good_calls) {}
  const ModelDescription& description() const override { return model_.description(); }
  const StateSpec& carry_spec() const override { return model_.carry_spec(); }
  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    if (good_calls_-- == 0) throw std::runtime_error("broken");
    return model_.Forward(tokens, carry, options);
  }
  void Visit(const TensorVisitor&) override {}

 private:
  const Model& model_;
  mutable int good_calls_;  // the test's thread
};

TEST_P(DecoderTest, AStepThatFailsMovesNothing) {
  const std::vector<int32_t> tokens = Ids(RandomTokens(model(), 1, 4));
  const std::vector<int32_t> bad = {0, static_cast<int32_t>(model().vocab)};
  std::vector<int32_t> slots = {MustAcquire(), MustAcquire(), MustAcquire()};
  MustStep(slots[0], tokens);
  const std::vector<float> expected = MustStep(slots[0], tokens);
  for (const int i : {1, 2}) MustStep(slots[i], tokens);

  const auto check = [&](std::vector<Segment> segments, Decoder& decoder,
                         absl::StatusCode code) {
    const int64_t blocks = arena_->pools().blocks_used();
    std::vector<float> logits(100 * model().vocab);
    EXPECT_EQ(decoder.Step(segments, *arena_, logits.data()).code(), code);
    EXPECT_EQ(arena_->length(slots[1]), 4);
    EXPECT_EQ(arena_->length(slots[2]), 4);
    EXPECT_EQ(arena_->pools().blocks_used(), blocks);
  };
  const Segment good{.slot = slots[1], .position = 4, .tokens = tokens};
  const auto other = [&](int64_t position, std::span<const int32_t> ids) {
    return Segment{.slot = slots[2], .position = position, .tokens = ids};
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  check({good, other(4, bad)}, *decoder_, invalid);
  check({good, other(3, tokens)}, *decoder_, invalid);
  check({good, other(4, {})}, *decoder_, invalid);
  check({good, good}, *decoder_, invalid);
  for (const int calls : {0, 2, 5}) {
    if (GetParam().step_form) break;  // never calls Forward
    BreakingModel breaking(*model_, calls);
    check({good, other(4, tokens)}, *MakeDefaultDecoder(breaking),
          absl::StatusCode::kInternal);
  }
  for (const int i : {1, 2}) EXPECT_EQ(MustStep(slots[i], tokens), expected);
}

TEST_P(DecoderTest, AStepWithoutBlocksMovesNothing) {
  if (!decoder_->spec().growing()) return;
  auto arena = StateArena::Create(decoder_->spec(), {.slots = 2, .blocks = 1});
  ASSERT_TRUE(arena.ok()) << arena.status();
  const std::vector<int32_t> tokens = {1, 2};
  const std::vector<Segment> segments = {
      {.slot = *(*arena)->Acquire(), .tokens = tokens},
      {.slot = *(*arena)->Acquire(), .tokens = tokens}};
  std::vector<float> logits(2 * model().vocab);
  EXPECT_EQ(decoder_->Step(segments, **arena, logits.data()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((*arena)->pools().blocks_used(), 0);
  EXPECT_TRUE(decoder_->Step({&segments[1], 1}, **arena, logits.data()).ok());
}

TEST_P(DecoderTest, BeyondTheContextIsFailedPrecondition) {
  const int64_t limit = decoder_->spec().max_positions();
  if (limit == StateSpec::kUnlimited) return;
  const int32_t slot = MustAcquire();
  MustStep(slot, Ids(RandomTokens(model(), 1, limit)));
  const int32_t token = 0;
  const Segment segment{.slot = slot, .position = limit, .tokens = {&token, 1}};
  EXPECT_EQ(decoder_->Step({&segment, 1}, *arena_, nullptr).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(arena_->length(slot), limit);
}

TEST_P(DecoderTest, NamesItsNumerics) {
  if (GetParam().step_form) {
    // The plain loops keep to no revision.
    const std::string arithmetic = GetParam().target == "reference"
                                       ? "reference"
                                       : "r" + std::to_string(kKernelRevision);
    EXPECT_EQ(decoder_->numerics_id(),
              std::string("step/") + NameOf(GetParam().format) + "/" + arithmetic);
    return;
  }
  EXPECT_EQ(decoder_->spec(), model_->carry_spec());
  EXPECT_EQ(decoder_->numerics_id().find("default/fp32/cpu"), 0u);
  EXPECT_NE(decoder_->numerics_id().find("torch-" + TensorLibraryVersion()),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Variants, DecoderTest, testing::ValuesIn(AllServed()),
                         ServedName);

}  // namespace
}  // namespace mnemon
