// SPDX-License-Identifier: MIT
#include "model/blocks/attention/rotary.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "model/compute/functions.h"

namespace mnemon {
namespace {

constexpr double kTwoPi = 6.283185307179586;

double Scaled(const LinearScaling& scaling, double f) { return f / scaling.factor; }

double Scaled(const Llama3Scaling& scaling, double f) {
  const double wave = kTwoPi / f;
  if (wave > scaling.context / scaling.low) return f / scaling.factor;
  if (wave < scaling.context / scaling.high) return f;
  const double share =
      (scaling.context / wave - scaling.low) / (scaling.high - scaling.low);
  return (1 - share) * f / scaling.factor + share * f;
}

// The (fractional) pair that turns this many times within the context.
double PairOf(double turns, double context, const Rotary& rotary) {
  return static_cast<double>(rotary.width) * numerics::Log(context / (turns * kTwoPi)) /
         (2 * numerics::Log(rotary.theta));
}

void Scale(const YarnScaling& scaling, const Rotary& rotary, std::vector<double>& all) {
  const auto last = static_cast<double>(rotary.width - 1);
  const double low =
      std::max(0.0, std::floor(PairOf(scaling.fast, scaling.context, rotary)));
  double high =
      std::min(last, std::ceil(PairOf(scaling.slow, scaling.context, rotary)));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < all.size(); ++i) {
    const double ramp =
        std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    all[i] = all[i] / scaling.factor * ramp + all[i] * (1 - ramp);
  }
}

bool Positive(std::initializer_list<double> numbers) {
  return std::ranges::all_of(numbers,
                             [](double x) { return std::isfinite(x) && x > 0; });
}

bool Sound(const std::monostate&) { return true; }
bool Sound(const LinearScaling& s) { return Positive({s.factor}); }
bool Sound(const Llama3Scaling& s) {
  return Positive({s.factor, s.low, s.high, s.context}) && s.low < s.high;
}
bool Sound(const YarnScaling& s) {
  return Positive({s.factor, s.fast, s.slow, s.context}) && s.slow <= s.fast;
}

}  // namespace

std::vector<double> FrequenciesOf(const Rotary& rotary) {
  std::vector<double> all(static_cast<size_t>(rotary.width / 2));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = numerics::Exp(-2.0 * static_cast<double>(i) * numerics::Log(rotary.theta) /
                           static_cast<double>(rotary.width));
  }
  if (const auto* yarn = std::get_if<YarnScaling>(&rotary.scaling)) {
    Scale(*yarn, rotary, all);
  } else if (const auto* linear = std::get_if<LinearScaling>(&rotary.scaling)) {
    for (double& f : all) f = Scaled(*linear, f);
  } else if (const auto* llama3 = std::get_if<Llama3Scaling>(&rotary.scaling)) {
    for (double& f : all) f = Scaled(*llama3, f);
  }
  return all;
}

std::vector<std::string> FaultsOf(const Rotary& rotary, int64_t head_width) {
  std::vector<std::string> faults;
  if (rotary.width < 2 || rotary.width % 2 != 0 || rotary.width > head_width) {
    faults.push_back(StrCat("rotary positions on ", rotary.width,
                            " numbers of a head, not an even number up to its ",
                            head_width));
  }
  if (!Positive({rotary.theta - 1, rotary.magnitude}) ||
      !std::visit([](const auto& scaling) { return Sound(scaling); }, rotary.scaling)) {
    faults.emplace_back("rotary positions with a number that is not of use");
  }
  return faults;
}

}  // namespace mnemon
