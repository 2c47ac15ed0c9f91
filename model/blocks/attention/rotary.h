// SPDX-License-Identifier: MIT
// Rotary positions as data ("RoFormer", Su et al., 2021): the first `width` numbers of
// a head are pairs (x_i, x_{i+half}), half = width/2, each turned by position times
// f_i,
//   y_i = x_i c - x_{i+half} s,  y_{i+half} = x_{i+half} c + x_i s
//   f_i = theta^(-2i/width), c and s times `magnitude`
// Scaling stretches f for contexts longer than in training. Scaling by the current
// length is not supported: states would depend on how a text was split.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace mnemon {

// f / factor.
struct LinearScaling {
  double factor = 1;
  bool operator==(const LinearScaling&) const = default;
};

// By wavelength 2 pi / f: f / factor above context / low, f below context / high, in
// between interpolated by (context f / (2 pi) - low) / (high - low) ("The Llama 3 Herd
// of Models", 2024).
struct Llama3Scaling {
  double factor = 1, low = 1, high = 4;
  double context = 8192;
  bool operator==(const Llama3Scaling&) const = default;
};

// Linear from f at pair `first` to f / factor at pair `last` ("YaRN", Peng et al.,
// 2023). `first` and `last` are the pairs that turn `fast` and `slow` times within the
// context, rounded down and up.
struct YarnScaling {
  double factor = 1, fast = 32, slow = 1;
  double context = 4096;
  bool operator==(const YarnScaling&) const = default;
};

struct Rotary {
  int64_t width = 2;  // even, at most the head's
  double theta = 10000;
  double magnitude = 1;
  std::variant<std::monostate, LinearScaling, Llama3Scaling, YarnScaling> scaling = {};

  bool operator==(const Rotary&) const = default;
};

// f_i [width / 2]. The same bits on every machine.
std::vector<double> FrequenciesOf(const Rotary& rotary);

// Errors in settings for heads of `head_width`, in words; empty if valid.
std::vector<std::string> FaultsOf(const Rotary& rotary, int64_t head_width);

}  // namespace mnemon
