// SPDX-License-Identifier: MIT
#include "model/compute/device/slot_sampler.h"

#include <algorithm>
#include <new>

namespace mnemon {

SlotSamplerImage::SlotSamplerImage(const SamplingParams& params,
                                   std::span<const int32_t> tail) {
  constexpr size_t kUnit = 16;
  const auto whole = [](size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; };
  const size_t capacity =
      params.penalizes() ? static_cast<size_t>(params.penalty_window_tokens) : 0;
  const size_t biases = whole(sizeof(device::SlotSampler));
  const size_t window =
      whole(biases + params.logit_bias.size() * sizeof(device::TokenBias));
  bytes_.resize(window + capacity * sizeof(int32_t));
  biases_ = static_cast<int64_t>(biases);
  window_ = static_cast<int64_t>(window);

  auto* const to = reinterpret_cast<device::TokenBias*>(bytes_.data() + biases);
  std::ranges::transform(params.logit_bias, to, [](const LogitBias& one) {
    return device::TokenBias{one.token, one.bias};
  });
  // Entries of one token become adjacent, in their order.
  std::stable_sort(to, to + params.logit_bias.size(),
                   [](const auto& a, const auto& b) { return a.token < b.token; });

  const std::span newest = tail.last(std::min(tail.size(), capacity));
  std::ranges::copy(newest, reinterpret_cast<int32_t*>(bytes_.data() + window));

  auto& sampler = *new (bytes_.data()) device::SlotSampler;
  sampler.row.temperature = params.temperature;
  sampler.row.top_k = params.top_k;
  sampler.row.top_p = params.top_p;
  sampler.row.min_p = params.min_p;
  sampler.row.typical_p = params.typical_p;
  sampler.row.seed = params.seed;
  sampler.row.penalties = {params.repetition_penalty, params.frequency_penalty,
                           params.presence_penalty};
  sampler.row.bias_count = static_cast<int32_t>(params.logit_bias.size());
  sampler.window.capacity = static_cast<int32_t>(capacity);
  sampler.window.size = static_cast<int32_t>(newest.size());
  sampler.window.next =
      newest.size() == capacity ? 0 : static_cast<int32_t>(newest.size());
}

device::SlotSampler* SlotSamplerImage::MoveTo(void* address) {
  auto* const at = static_cast<char*>(address);
  auto* const there = reinterpret_cast<device::SlotSampler*>(at);
  auto& sampler = *reinterpret_cast<device::SlotSampler*>(bytes_.data());
  sampler.row.biases = reinterpret_cast<const device::TokenBias*>(at + biases_);
  sampler.row.window = sampler.window.capacity > 0 ? &there->window : nullptr;
  sampler.window.tokens = reinterpret_cast<int32_t*>(at + window_);
  return there;
}

}  // namespace mnemon
