// SPDX-License-Identifier: MIT
#include "train/report/axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// Steps between ticks are 1, 2 or 5 times a power of ten.
double RoundStep(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

constexpr int kMostTicks = 6;

}  // namespace

Axis::Axis(AxisRange range, bool logarithmic, bool rounded, double first, double last)
    : range_(range), logarithmic_(logarithmic), first_(first), last_(last) {
  if (logarithmic_) {
    PlaceLogarithmicTicks(rounded);
  } else {
    PlaceLinearTicks(rounded);
  }
}

double Axis::Scaled(double value) const {
  return logarithmic_ ? std::log10(value) : value;
}

double Axis::At(double value) const {
  const double begin = Scaled(range_.least), end = Scaled(range_.most);
  return first_ + (Scaled(value) - begin) / (end - begin) * (last_ - first_);
}

void Axis::PlaceLinearTicks(bool rounded) {
  double& least = range_.least;
  double& most = range_.most;
  // A range without a width, or with less than a double can divide.
  const double size = std::max(std::abs(least), std::abs(most));
  if (most - least <= 1e-9 * size || most - least < 1e-300) {
    const double margin = size > 1e-290 ? 0.05 * size : 1;
    least -= margin;
    most += margin;
  }
  const double step = RoundStep((most - least) / (kMostTicks - 1));
  if (rounded) {
    least = std::floor(least / step + 1e-9) * step;
    most = std::ceil(most / step - 1e-9) * step;
  }
  const double from = std::ceil(least / step - 1e-9);
  const double to = std::floor(most / step + 1e-9);
  for (double i = from; i <= to; ++i) ticks_.push_back(i * step + 0.0);
}

void Axis::PlaceLogarithmicTicks(bool rounded) {
  double& least = range_.least;
  double& most = range_.most;
  if (std::log10(most / least) < 0.02) {
    least /= 1.2;
    most *= 1.2;
  }
  const double decades = std::log10(most / least);
  const std::vector<double> few = {1}, some = {1, 3}, many = {1, 2, 5};
  const std::vector<double>& factors = decades > 4 ? few : decades > 1.5 ? some : many;
  const double every = std::ceil(decades / (kMostTicks + 1));
  std::vector<double> all;
  const double begin = std::floor(std::log10(least) / every) * every;
  for (double power = begin; power <= std::log10(most) + every; power += every) {
    for (const double factor : factors) all.push_back(factor * std::pow(10.0, power));
  }
  if (rounded) {
    const auto below = std::find_if(all.rbegin(), all.rend(), [&](double tick) {
      return tick <= least * (1 + 1e-9);
    });
    const auto above = std::find_if(
        all.begin(), all.end(), [&](double tick) { return tick >= most * (1 - 1e-9); });
    if (below != all.rend()) least = *below;
    if (above != all.end()) most = *above;
  }
  for (const double tick : all) {
    if (tick >= least * (1 - 1e-9) && tick <= most * (1 + 1e-9)) ticks_.push_back(tick);
  }
}

std::string TickText(double value) {
  const double size = std::abs(value);
  if (size >= 1e12) return absl::StrFormat("%.2g", value);
  if (size >= 1e6) return absl::StrFormat("%.4gM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%.4gk", value / 1e3);
  if (size >= 1e-3 || size < 1e-300) {
    return absl::StrFormat("%.5g", value);
  }
  std::string text = absl::StrFormat("%.2e", value);  // 3.00e-05
  const size_t exponent = text.find('e');
  std::string digits = text.substr(0, exponent);
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  size_t first = exponent + 2;
  while (first + 1 < text.size() && text[first] == '0') ++first;
  return StrCat(digits, "e-", text.substr(first));
}

}  // namespace mnemon
