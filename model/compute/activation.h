// SPDX-License-Identifier: MIT
// Activations between the linear maps of a block.
#pragma once

namespace mnemon {

// max(x, 0); x Phi(x) with the exact normal distribution Phi, and with its
// approximation by tanh, x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is the same
// number as x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 ("Gaussian Error Linear
// Units", Hendrycks and Gimpel, 2016); x sigmoid(x), from the same paper.
enum class Activation { kRelu, kGelu, kGeluTanh, kSilu };

// Of kGeluTanh: the sigmoid's argument is x (kGeluLinear + kGeluCubic x^2).
inline constexpr double kGeluLinear = 1.5957691216057308;
inline constexpr double kGeluCubic = 0.044715 * kGeluLinear;

}  // namespace mnemon
