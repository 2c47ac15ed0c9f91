// SPDX-License-Identifier: MIT
// The bits of whole steps, and of text that is sampled from them, hashed on every
// target of the machine. When this fails because the arithmetic was meant to change,
// raise kKernelRevision and write the new hashes: states that older builds stored are
// then rebuilt instead of continued with other bits.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/compute/step_options.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/operations/cpu_operations.h"
#include "model/operations/step_numerics.h"
#include "model/program/step_decoder.h"
#include "model/sampling/sampler.h"
#include "tests/fakes/device/device_operations.h"
#include "tests/model/compute/bit_hash.h"
#include "tests/model/decoder/drawn_weights.h"

namespace mnemon {
namespace {

constexpr int kHashedRevision = 4;
struct Hashes {
  WeightFormat format;
  uint64_t logits, text;
};
// Hashes of the families that the revision started with, and of those added later.
constexpr Hashes kHashes[] = {
    {WeightFormat::kFp32, 13901607060325091703ull, 9395774841679125157ull},
    {WeightFormat::kBf16, 12563424020583939217ull, 9513365787037637575ull},
    {WeightFormat::kInt8, 5764538678836578122ull, 17075066917566843894ull}};
constexpr std::string_view kLater[] = {"llama"};
constexpr Hashes kLaterHashes[] = {
    {WeightFormat::kFp32, 12295214779615343682ull, 8871496840795331249ull},
    {WeightFormat::kBf16, 9136119831440051739ull, 2158242294136764624ull},
    {WeightFormat::kInt8, 9039766270027286818ull, 16610491284107074578ull}};
// Else text would say nothing of the logits.
static_assert(kHashes[0].text != kHashes[1].text &&
              kHashes[1].text != kHashes[2].text && kHashes[2].text != kHashes[0].text);

// A prompt, then tokens that are sampled one by one.
void HashSession(Decoder& decoder, SamplerScratch& scratch, BitHash& logits_hash,
                 BitHash& text_hash) {
  const int64_t vocab = decoder.model().vocab;
  const auto arena = *StateArena::Create(decoder.spec(), {.slots = 1});
  const int32_t slot = *arena->Acquire();
  SamplingParams params{.temperature = 0.8f, .top_p = 0.9f, .repetition_penalty = 1.1f};
  PenaltyCounts penalties(params, vocab);
  std::vector<int32_t> history;
  const int64_t most = std::min<int64_t>(decoder.spec().max_positions(), 40);
  for (int64_t i = 0; i < most / 2; ++i) {
    history.push_back(static_cast<int32_t>(i * 5 % vocab));
  }
  size_t fed = 0;
  std::vector<float> logits;
  while (static_cast<int64_t>(history.size()) <= most) {
    const std::span<const int32_t> tokens = std::span(history).subspan(fed);
    logits.resize(tokens.size() * static_cast<size_t>(vocab));
    const Segment segment{.slot = slot,
                          .position = static_cast<int64_t>(fed),
                          .tokens = tokens,
                          .logits = LogitsMode::kAll};
    ASSERT_TRUE(decoder.Step({&segment, 1}, *arena, logits.data()).ok());
    for (const float f : logits) logits_hash.Add(f);
    fed = history.size();
    if (static_cast<int64_t>(fed) == most) break;
    penalties.Update(history);
    // Several draws, the last of which goes on: few of them depend on the last bits.
    int32_t token = 0;
    for (params.seed = 0; params.seed < 16; ++params.seed) {
      token = *Sample(std::span(logits).last(static_cast<size_t>(vocab)), params,
                      static_cast<int64_t>(fed), scratch, penalties.counts());
      text_hash.Add(token);
    }
    history.push_back(token);
  }
}

// Every variant of some architectures in one format.
void ExpectHashes(const CpuOperations& operations, bool later, const Hashes& expected) {
  ThreadPool pool(2);
  SamplerScratch scratch;
  const bool emulated = &operations == &DeviceOperations();
  scratch.operations = &SamplingOperationsOf(
      emulated ? AllCpuOperations().front().target : operations.target);
  BitHash logits, text;
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    if ((std::ranges::count(kLater, entry.name) > 0) != later) continue;
    for (const ModelConfig& config : entry.variants()) {
      const ModelDescription model = entry.describe(config);
      const DrawnWeights weights(model);
      const std::unique_ptr<Decoder> decoder = *MakeStepDecoder(
          model, weights.views,
          {.format = expected.format, .operations = &operations, .pool = &pool});
      HashSession(*decoder, scratch, logits, text);
    }
  }
  EXPECT_EQ(logits.value(), expected.logits);
  EXPECT_EQ(text.value(), expected.text);
}

TEST(StepRevision, BitsAreThoseOfTheRevision) {
  for (const CpuOperations& operations : AllCpuOperations()) {
    if (IsReference(operations)) continue;
    for (size_t i = 0; i < std::size(kHashes); ++i) {
      SCOPED_TRACE(operations.target + std::string(" ") + NameOf(kHashes[i].format));
      ExpectHashes(operations, /*later=*/false, kHashes[i]);
      ExpectHashes(operations, /*later=*/true, kLaterHashes[i]);
    }
  }
  EXPECT_EQ(kHashedRevision, kKernelRevision);
}

TEST(StepRevision, BitsOfTheEmulatedDeviceAreTheSame) {
  if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  for (size_t i = 0; i < std::size(kHashes); ++i) {
    SCOPED_TRACE(NameOf(kHashes[i].format));
    ExpectHashes(DeviceOperations(), /*later=*/false, kHashes[i]);
    ExpectHashes(DeviceOperations(), /*later=*/true, kLaterHashes[i]);
  }
}

TEST(StepRevision, NumericsIdNamesFormatAndRevisionButForTheReference) {
  for (const CpuOperations& operations : AllCpuOperations()) {
    StepOptions options{.format = WeightFormat::kInt8, .operations = &operations};
    EXPECT_EQ(StepNumericsId(options),
              IsReference(operations) ? "step/int8/reference" : "step/int8/r4");
    options.format = WeightFormat::kFp32;
    EXPECT_EQ(StepNumericsId(options),
              IsReference(operations) ? "step/fp32/reference" : "step/fp32/r4");
  }
}

}  // namespace
}  // namespace mnemon
