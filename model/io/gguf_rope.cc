// SPDX-License-Identifier: MIT
#include "model/io/gguf_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace mnemon {
namespace {

constexpr double kLow = Llama3Factors::kLow, kHigh = Llama3Factors::kHigh;
constexpr double kFactorPrecision = 1e-5;  // converters compute in float32
constexpr double kMostRopeContext = 1 << 30;
// If no frequency lies between those that are divided and those that are not, the
// context hardly matters; this is that of the published models.
constexpr double kUsualContext = 8192;

// Divisor of a frequency in llama3.
double RopeFactorOf(double frequency, double factor, double context) {
  const double turns = context * frequency / (2 * std::numbers::pi);
  if (turns > kHigh) return 1;
  if (turns < kLow) return factor;
  const double mix = (turns - kLow) / (kHigh - kLow);
  return 1 / ((1 - mix) / factor + mix);
}

}  // namespace

std::optional<Llama3Factors> FindLlama3Factors(std::span<const float> factors,
                                               double theta, int64_t width) {
  if (factors.empty() || static_cast<int64_t>(factors.size()) != width / 2) return {};
  const double factor = *std::ranges::max_element(factors);
  if (!(factor > 1) || !std::isfinite(factor)) return {};
  const auto frequency = [&](size_t i) {
    return std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  };
  std::vector<double> candidates;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double found = factors[i];
    if (!(found > 1) || found >= factor) continue;
    const double mix = (1 / found - 1 / factor) / (1 - 1 / factor);
    candidates.push_back((kLow + mix * (kHigh - kLow)) * 2 * std::numbers::pi /
                         frequency(i));
    break;
  }
  if (candidates.empty()) {
    // Between the last unchanged frequency and the first divided one.
    const auto first = std::ranges::find_if(factors, [](float x) { return x > 1; });
    const auto at = static_cast<size_t>(first - factors.begin());
    candidates = {kUsualContext, kLow * 2 * std::numbers::pi / frequency(at) - 1};
    if (at > 0)
      candidates.push_back(kHigh * 2 * std::numbers::pi / frequency(at - 1) + 1);
  }
  for (double context : candidates) {
    context = std::round(context);
    if (!(context >= 1) || context > kMostRopeContext) continue;
    bool all = true;
    for (size_t i = 0; i < factors.size(); ++i) {
      const double wanted = RopeFactorOf(frequency(i), factor, context);
      all = all && std::abs(factors[i] - wanted) <= kFactorPrecision * wanted;
    }
    if (all) return Llama3Factors{factor, static_cast<int64_t>(context)};
  }
  return {};
}

}  // namespace mnemon
