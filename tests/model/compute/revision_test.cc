// SPDX-License-Identifier: MIT
// The bits of every operation, hashed. When this fails because the arithmetic was meant
// to change, raise kKernelRevision and write the new hash beside it: states that older
// builds stored are then rebuilt instead of continued with other bits.

#include "model/compute/packed_weights.h"
#include "tests/model/compute/bit_hash.h"
#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

constexpr int kHashedRevision = 4;
constexpr uint64_t kHash = 2209951804615921971ull;
constexpr uint64_t kInt8Hash = 14238629016517275217ull;

void HashLinear(const CpuOperations& operations, WeightFormat format, BitHash& hash) {
  constexpr int64_t kRows = 3, kInputs = 70, kOutputs = 50;
  const std::vector<float> in = Drawn(kRows * kInputs, 1), gain = Drawn(kInputs, 2);
  const std::vector<float> weights = Drawn(kOutputs * kInputs, 3);
  const std::vector<float> bias = Drawn(kOutputs, 4);
  PackedWeights packed(format);
  const PlainMatrix part = {
      .weights = weights.data(), .bias = bias.data(), .outputs = kOutputs};
  const MatrixView matrix = Pack(packed, {&part, 1}, kInputs);
  for (const Act act : {Act::kNone, Act::kRelu, Act::kGelu, Act::kSigmoid}) {
    std::vector<float> out(kRows * kOutputs);
    const LinearCall call = {.rows = kRows,
                             .in = {in.data(), kInputs},
                             .norm = {.gain = gain.data(), .bias = gain.data()},
                             .weights = matrix,
                             .act = act,
                             .gate = act == Act::kGelu ? &matrix : nullptr,
                             .out = {out.data(), kOutputs}};
    std::vector<float> scratch(ScratchFloats(call));
    operations.linear(call, {}, scratch.data());
    hash.Add(out);
  }
}

// Parts as two workers make them, and their Fold.
void HashParts(const CpuOperations& operations, WeightFormat format, BitHash& hash) {
  constexpr int64_t kRows = 2, kInputs = 200, kOutputs = 50, kSlices = 4, kFirst = 2;
  constexpr int64_t kSize = kRows * kOutputs, kParts = 1 + kSlices - kFirst;
  const std::vector<float> in = Drawn(kRows * kInputs, 1);
  const std::vector<float> weights = Drawn(kOutputs * kInputs, 2);
  const std::vector<float> bias = Drawn(kOutputs, 3);
  PackedWeights packed(format);
  const PlainMatrix part = {
      .weights = weights.data(), .bias = bias.data(), .outputs = kOutputs};
  const MatrixView matrix = Pack(packed, {&part, 1}, kInputs);
  std::vector<float> parts(kParts * kSize), scales(kRows * kSlices);
  PartsCall call = {.rows = kRows,
                    .in = {in.data(), kInputs},
                    .weights = matrix,
                    .slices = {0, kFirst},
                    .part_stride = kSize,
                    .out = {parts.data(), kOutputs}};
  std::vector<float> scratch(ScratchFloats(call));
  operations.parts(call, {}, scratch.data());
  call.slices = {kFirst, kSlices};
  call.each = true;
  call.out.data += kSize;
  call.scales = {scales.data(), kSlices};
  operations.parts(call, {}, scratch.data());
  hash.Add(parts);
  hash.Add(scales);
  std::vector<float> out(kSize);
  operations.fold({.rows = kRows,
                   .width = kOutputs,
                   .in = {parts.data(), kOutputs},
                   .parts = kParts,
                   .part_stride = kSize,
                   .bias = matrix.bias,
                   .scales = matrix.scales,
                   .part_scales = {scales.data(), kSlices},
                   .residual = {in.data(), kOutputs},
                   .out = {out.data(), kOutputs}},
                  {});
  hash.Add(out);
}

void HashAttend(const CpuOperations& operations, BitHash& hash) {
  constexpr int64_t kHeads = 2, kWidth = 20, kRow = kHeads * kWidth, kBlocks = 40;
  constexpr int64_t kPositions = kBlocks * kBlockPositions;
  constexpr int64_t kBlockFloats = (2 * kRow + kHeads) * kBlockPositions;
  std::vector<float> blocks = Drawn(kBlocks * kBlockFloats, 1);
  std::vector<const float*> pointers;
  std::vector<Place> places;
  for (int64_t b = 0; b < kBlocks; ++b) {
    pointers.push_back(blocks.data() + b * kBlockFloats);
    places.push_back({blocks.data() + b * kBlockFloats, b % kBlockPositions});
  }
  const std::vector<float> rows = Drawn(kBlocks * kRow, 2);
  operations.append({.rows = kBlocks,
                     .heads = kHeads,
                     .width = kWidth,
                     .places = places.data(),
                     .key = {rows.data(), kRow},
                     .value = {rows.data(), kRow},
                     .head_stride = kWidth,
                     .key_offset = 0,
                     .value_offset = kRow * kBlockPositions,
                     .fold_offset = 2 * kRow * kBlockPositions,
                     .query_bias = rows.data()},
                    {});
  hash.Add(blocks);
  const std::vector<float> tables = Drawn(kRow * kPositions + 32, 3);
  const std::vector<float> slopes = {0.5f, 0.01f};
  // The second begins a few blocks after the beginning of a group.
  const std::vector<KeyRange> key_ranges = {
      {.blocks = pointers.data(),
       .first = 5,
       .last = kPositions - 3,
       .query = kPositions - 3},
      {.blocks = pointers.data(), .first = 37, .last = 600, .query = 620}};
  std::vector<float> out(2 * kRow);
  for (const bool relative : {false, true}) {
    const AttendCall call = {.rows = 2,
                             .heads = kHeads,
                             .width = kWidth,
                             .scale = 0.3f,
                             .query = {rows.data(), kRow},
                             .group_stride = kWidth,
                             .out = {out.data(), kRow},
                             .key_ranges = key_ranges.data(),
                             .groups = KeyGroups(key_ranges[0]),
                             .key_offset = 0,
                             .value_offset = kRow * kBlockPositions,
                             .fold_offset = relative ? 2 * kRow * kBlockPositions : -1,
                             .relative_key = relative ? tables.data() + 16 : nullptr,
                             .relative_bias = relative ? tables.data() + 16 : nullptr,
                             .table_rows = kPositions,
                             .zero_row = kPositions - 1,
                             .slopes = relative ? nullptr : slopes.data()};
    std::vector<float> scratch(ScratchFloats(call));
    operations.attend(call, {}, scratch.data());
    hash.Add(out);
  }
}

void HashFastWeights(const CpuOperations& operations, BitHash& hash) {
  constexpr int64_t kHeads = 2, kWidth = 20, kNu = 2, kRow = kHeads * kWidth;
  constexpr int64_t kFeatures = 2 * kNu * kWidth;
  const std::vector<float> rows = Drawn(5 * kRow, 1);
  constexpr int64_t kState = kHeads * kFeatures * kWidth;
  std::vector<float> fixed = Drawn(kState, 2), out(5 * kRow);
  fixed.resize(kState + kHeads * kFeatures, 1.0f);
  const FastWeightRun run = {.count = 5, .fixed = fixed.data()};
  FastWeightCall call = {.heads = kHeads,
                         .width = kWidth,
                         .map = {.nu = kNu},
                         .runs = 1,
                         .run = &run,
                         .normaliser_offset = kState,
                         .query = {rows.data(), kRow},
                         .key = {rows.data(), kRow},
                         .value = {rows.data(), kRow},
                         .head_stride = kWidth,
                         .out = {out.data(), kRow}};
  std::vector<float> scratch(ScratchFloats(call));
  for (const bool delta : {false, true}) {
    if (delta) call.beta = {rows.data(), kRow};
    operations.fast_weights(call, {}, scratch.data());
    hash.Add(out);
    hash.Add(fixed);
  }
}

void HashRows(const CpuOperations& operations, BitHash& hash) {
  constexpr int64_t kWidth = 20;
  const std::vector<float> rows = Drawn(6 * kWidth, 1);
  const int32_t id = 2;
  const int64_t position = 0;
  std::vector<float> out(kWidth);
  EmbedCall embed = {.rows = 1,
                     .width = kWidth,
                     .table = rows.data(),
                     .scale = 1.3f,
                     .ids = &id,
                     .positions = &position,
                     .learned = rows.data(),
                     .out = {out.data(), kWidth}};
  operations.embed(embed, {});
  hash.Add(out);
  // The head instead of a table; sums of two angles instead of learned positions.
  PackedWeights packed(WeightFormat::kFp32);
  const PlainMatrix part = {.weights = rows.data(), .outputs = 6};
  const MatrixView head = Pack(packed, {&part, 1}, kWidth);
  std::vector<double> angles;
  for (const float f : Drawn(2 * 3 * kWidth, 3)) angles.push_back(f);
  const int64_t after = 5;
  embed.table = nullptr;
  embed.tied = &head;
  embed.positions = &after;
  embed.learned = nullptr;
  embed.sinusoid = {.coarse = angles.data(),
                    .fine = angles.data() + 3 * kWidth,
                    .stride = 3,
                    .turns = kWidth};
  operations.embed(embed, {});
  hash.Add(out);
  operations.mix({.rows = 1,
                  .width = kWidth,
                  .layers = 6,
                  .weights = rows.data(),
                  .in = {rows.data(), kWidth},
                  .layer_stride = kWidth,
                  .out = {out.data(), kWidth}},
                 {});
  hash.Add(out);
  for (const Act act : {Act::kNone, Act::kRelu, Act::kGelu, Act::kSigmoid}) {
    operations.norm({.rows = 1,
                     .width = kWidth,
                     .in = {rows.data(), kWidth},
                     .norm = {.gain = rows.data(), .bias = rows.data() + kWidth},
                     .act = act,
                     .out = {out.data(), kWidth}},
                    {});
    hash.Add(out);
  }
  std::vector<float> scores = Drawn(3 * kWidth, 2, 20);
  operations.softmax({.rows = 3,
                      .keys = kWidth,
                      .query = 4,
                      .scale = 0.7f,
                      .slope = 0.25f,
                      .causal = true,
                      .scores = {scores.data(), kWidth}},
                     {});
  hash.Add(scores);
}

TEST(KernelRevision, BitsAreThoseOfTheRevision) {
  for (const CpuOperations& operations : AllOperations()) {
    if (IsReference(operations)) continue;
    const std::string target = operations.target;
    BitHash hash, int8;
    HashLinear(operations, WeightFormat::kInt8, int8);
    HashParts(operations, WeightFormat::kInt8, int8);
    EXPECT_EQ(int8.value(), kInt8Hash) << target << " " << operations.int8;
    HashRows(operations, hash);
    HashLinear(operations, WeightFormat::kFp32, hash);
    HashLinear(operations, WeightFormat::kBf16, hash);
    HashParts(operations, WeightFormat::kFp32, hash);
    HashParts(operations, WeightFormat::kBf16, hash);
    HashAttend(operations, hash);
    HashFastWeights(operations, hash);
    EXPECT_EQ(hash.value(), kHash) << target;
  }
  EXPECT_EQ(kHashedRevision, kKernelRevision);
}

}  // namespace
}  // namespace mnemon
