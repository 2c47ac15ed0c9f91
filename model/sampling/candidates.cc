// SPDX-License-Identifier: MIT
#include "model/sampling/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "model/compute/functions.h"
#include "model/sampling/fixed_point.h"

namespace mnemon {
namespace {

// For min-p: tokens that surely weigh less are not weighed. Covers the rounding of
// exponents, exponentials and weights, together below 10^-5 of a weight.
constexpr double kWeightSlack = 1e-3;

uint64_t Sum(std::span<const uint64_t> weights) {
  return std::accumulate(weights.begin(), weights.end(), uint64_t{0});
}

// The first weight whose running sum exceeds `target`; reduces `target` by those before
// it.
size_t Pass(std::span<const uint64_t> weights, uint64_t& target) {
  size_t i = 0;
  while (i + 1 < weights.size() && weights[i] <= target) target -= weights[i++];
  return i;
}

}  // namespace

void CandidateScratch::Reserve(int64_t vocab) {
  const auto count = static_cast<size_t>(vocab);
  const size_t written = count + kSamplingBlock + kWriteSlack;
  ids.reserve(count);
  logits.reserve(count);
  information.reserve(written);
  weights.reserve(written);
  block_sums.reserve(count / kSamplingBlock + 1);
  positions.reserve(written);
}

Candidates::Candidates(std::span<const float> logits, const LogitScale& scale,
                       const SamplingOperations& operations, CandidateScratch& scratch)
    : operations_(operations), scale_(scale), scratch_(scratch), logits_(logits) {}

std::span<const uint64_t> Candidates::Weigh() {
  auto& weights = scratch_.weights;
  if (!weighed_) {
    weights.resize(size() + kWriteSlack);
    total_ = operations_.weigh(scale_, logits_.data(), static_cast<int64_t>(size()),
                               weights.data());
    weighed_ = true;
  }
  return {weights.data(), size()};
}

Candidates::Block Candidates::WeighBlock(size_t block) {
  const size_t begin = block * kSamplingBlock,
               count = std::min<size_t>(kSamplingBlock, size() - begin);
  if (weighed_) {
    const std::span<const uint64_t> weights = Weigh().subspan(begin, count);
    return {weights, Sum(weights)};
  }
  scratch_.weights.resize(kSamplingBlock + kWriteSlack);
  const uint64_t total =
      operations_.weigh(scale_, logits_.data() + begin, static_cast<int64_t>(count),
                        scratch_.weights.data());
  return {{scratch_.weights.data(), count}, total};
}

void Candidates::Keep() {
  const Positions& kept = scratch_.positions;
  const size_t count = kept.size();
  if (count == size()) return;
  // A position is never below its place among the kept, so everything moves down.
  scratch_.logits.resize(std::max(scratch_.logits.size(), count));
  scratch_.ids.resize(std::max(scratch_.ids.size(), count));
  float* const logits = scratch_.logits.data();
  for (size_t i = 0; i < count; ++i) {
    scratch_.ids[i] = id(static_cast<size_t>(kept[i]));
    logits[i] = logits_[static_cast<size_t>(kept[i])];
  }
  if (weighed_) {
    total_ = 0;
    for (size_t i = 0; i < count; ++i) {
      total_ += scratch_.weights[i] = scratch_.weights[static_cast<size_t>(kept[i])];
    }
  }
  all_ = false;
  logits_ = {logits, count};
}

void Candidates::CutTopK(int32_t k) {
  const auto count = static_cast<size_t>(k);
  if (count >= size()) return;
  const PrefixEnd end =
      FindPrefixByCount(operations_, logits_, count, scratch_.positions);
  ListPrefix(operations_, logits_, end, scratch_.positions);
  Keep();
}

float Candidates::Inform() {
  const double scaled = static_cast<double>(total_) * 0x1p-40;
  const InformationScale scale = {
      .logits = scale_,
      .total = static_cast<float>(scaled),
      .log_total = static_cast<float>(numerics::Log(scaled))};
  scratch_.information.resize(size() + kWriteSlack);
  // Tokens that are not kept add 0.
  std::array<float, kSamplingBlock + kWriteSlack> parts;
  alignas(64) std::array<float, kSamplingBlock> of_block = {};
  int32_t block = 0;
  float entropy = 0;
  for (size_t begin = 0; begin < size(); begin += kSamplingBlock) {
    const size_t count = std::min<size_t>(kSamplingBlock, size() - begin);
    operations_.inform(scale, logits_.data() + begin, static_cast<int64_t>(count),
                       scratch_.information.data() + begin, parts.data());
    for (size_t i = 0; i < count; ++i) {
      const int32_t token = id(begin + i);
      if (token / kSamplingBlock != block) {
        entropy += operations_.sum(of_block.data(), kSamplingBlock);
        of_block.fill(0);
        block = static_cast<int32_t>(token / kSamplingBlock);
      }
      of_block[static_cast<size_t>(token % kSamplingBlock)] = parts[i];
    }
  }
  return entropy + operations_.sum(of_block.data(), kSamplingBlock);
}

void Candidates::CutTypical(float p) {
  const std::span<const uint64_t> weights = Weigh();
  const float entropy = Inform();
  // Tokens without weight have infinite information, and come last.
  float* const scores = scratch_.information.data();
  for (size_t i = 0; i < size(); ++i) scores[i] = -std::abs(scores[i] - entropy);
  const std::span<const float> all(scores, size());
  const PrefixEnd end =
      FindPrefixByWeight(all, weights, CeilOfShare(p, total_), scratch_.positions);
  ListPrefix(operations_, all, end, scratch_.positions);
  Keep();
}

// In double, so that the rounding of large logits is far below any difference between
// them.
float Candidates::LogitOf(double weight) const {
  const double exponent = numerics::Log(weight * 0x1p-40);
  const double logit = scale_.most + scale_.temperature * exponent;
  return static_cast<float>(
      std::max<double>(logit, std::numeric_limits<float>::lowest()));
}

void Candidates::Find(float least) {
  Positions& positions = scratch_.positions;
  positions.resize(size() + kWriteSlack);
  positions.resize(static_cast<size_t>(operations_.find(
      logits_.data(), static_cast<int64_t>(size()), least, 0, positions.data())));
}

void Candidates::CutTopP(float p) {
  std::span<const uint64_t> weights = Weigh();
  const uint64_t target = std::max<uint64_t>(CeilOfShare(p, total_), 1);
  // Tokens that together weigh less than the rest are not in the set, so that most need
  // not be examined again. Weights decide this, not where the logits are cut.
  const uint64_t little = (total_ - target) / size();
  if (little > 0) {
    Find(LogitOf(static_cast<double>(little)));
    uint64_t found = 0;
    for (const int32_t position : scratch_.positions) found += weights[position];
    if (found >= target && scratch_.positions.size() < size() / 2) {
      Keep();
      weights = Weigh();
    }
  }
  const PrefixEnd end =
      FindPrefixByWeight(logits_, weights, target, scratch_.positions);
  ListPrefix(operations_, logits_, end, scratch_.positions);
  Keep();
}

void Candidates::CutMinP(float share) {
  if (!weighed_) {
    // The largest logit is then among the kept: its weight is 1.
    const double least = std::max(double{share}, 0x1p-40);
    Find(LogitOf(least * kWeightOne * (1 - kWeightSlack)));
    Keep();
  }
  const std::span<const uint64_t> weights = Weigh();
  const uint64_t least =
      CeilOfShare(share, *std::max_element(weights.begin(), weights.end()));
  Positions& positions = scratch_.positions;
  positions.resize(size());
  size_t count = 0;
  for (size_t i = 0; i < size(); ++i) {
    positions[count] = static_cast<int32_t>(i);
    count += weights[i] >= least;
  }
  positions.resize(count);
  Keep();
}

int32_t Candidates::Draw(uint64_t random) {
  std::vector<uint64_t>& sums = scratch_.block_sums;
  sums.resize((size() + kSamplingBlock - 1) / kSamplingBlock);
  for (size_t block = 0; block < sums.size(); ++block)
    sums[block] = WeighBlock(block).total;
  uint64_t target = FloorOfFraction(random, Sum(sums));
  const size_t block = Pass(sums, target);
  return id(block * kSamplingBlock + Pass(WeighBlock(block).weights, target));
}

}  // namespace mnemon
