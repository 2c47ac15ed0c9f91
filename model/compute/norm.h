// SPDX-License-Identifier: MIT
// Settings of a norm over the last dimension of x, of D numbers:
//   layer  z = (x - mean) / sqrt(variance + eps) * gain + bias
//          ("Layer Normalization", Ba, Kiros, Hinton, 2016)
//   RMS    z = x / sqrt(mean of x^2 + eps) * gain
//          ("Root Mean Square Layer Normalization", Zhang, Sennrich, 2019)
#pragma once

namespace mnemon {

struct Norm {
  // kKept: the file has the tensors of a layer norm, but they are never applied.
  enum class Kind { kNone, kLayer, kRms, kKept };

  Kind kind = Kind::kLayer;
  double eps = 1e-5;
  bool one_plus = false;  // the gain is 1 + weight

  static Norm None() { return {.kind = Kind::kNone}; }
  bool applies() const { return kind == Kind::kLayer || kind == Kind::kRms; }
  bool stored() const { return kind != Kind::kNone; }
  bool biased() const { return kind == Kind::kLayer || kind == Kind::kKept; }
  bool operator==(const Norm&) const = default;
};

}  // namespace mnemon
