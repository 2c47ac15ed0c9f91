// SPDX-License-Identifier: MIT
// Activations between the linear maps of a block.
#pragma once

namespace mnemon {

// max(x, 0), and x Phi(x) with the exact normal distribution Phi ("Gaussian Error
// Linear Units", Hendrycks and Gimpel, 2016).
enum class Activation { kRelu, kGelu };

}  // namespace mnemon
