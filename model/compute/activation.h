// SPDX-License-Identifier: MIT
// Activations between the linear maps of a block, and caps of scores and logits.
#pragma once

namespace mnemon {

// max(x, 0); x Phi(x) with the exact normal distribution Phi, and with its
// approximation by tanh, x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is the same
// number as x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 ("Gaussian Error Linear
// Units", Hendrycks and Gimpel, 2016); x sigmoid(x), from the same paper; sigmoid(x);
// tanh(x).
enum class Activation { kRelu, kGelu, kGeluTanh, kSilu, kSigmoid, kTanh };

// Constants of kGeluTanh: the sigmoid's argument is x (kGeluLinear + kGeluCubic x^2).
inline constexpr double kGeluLinear = 1.5957691216057308;
inline constexpr double kGeluCubic = 0.044715 * kGeluLinear;

// kTanh in float32: tanh(x) = x + x^3 p(x^2) for |x| < kTanhNear, where p has these
// coefficients, the highest first; elsewhere (1 - e^(-2|x|)) / (1 + e^(-2|x|)) with the
// sign of x. Fitted to minimise the largest relative error, 8.2e-8 with its roundings.
inline constexpr float kTanhNear = 0.625f;
inline constexpr float kTanhTerms[] = {-0.005704987794160843f, 0.0206390880048275f,
                                       -0.05373971536755562f, 0.13331441581249237f,
                                       -0.3333328068256378f};

}  // namespace mnemon
