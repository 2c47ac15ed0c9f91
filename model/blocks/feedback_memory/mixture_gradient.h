// SPDX-License-Identifier: MIT
// The weights of a Feedback Transformer's memory, m = sum of softmax(w)_l x^l (Fan et
// al. 2020), in training.
#pragma once

#include <cstddef>
#include <vector>

namespace mnemon {

// softmax(w) of w [count].
template <class Real>
std::vector<Real> MemoryMixture(const Real* w, size_t count);

// Turns the gradient of softmax(w), one number for each of `mixture`, into that of w.
template <class Real>
void MixtureBackward(const std::vector<Real>& mixture, Real* gradients);

}  // namespace mnemon
