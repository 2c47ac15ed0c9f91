// SPDX-License-Identifier: MIT
#include "model/blocks/feedback_memory/mixture_gradient.h"

#include <algorithm>

#include "model/compute/functions.h"

namespace mnemon {

template <class Real>
std::vector<Real> MemoryMixture(const Real* w, size_t count) {
  const auto most = static_cast<double>(*std::max_element(w, w + count));
  double sum = 0;
  std::vector<double> powers;
  for (size_t l = 0; l < count; ++l) {
    powers.push_back(numerics::Exp(static_cast<double>(w[l]) - most));
    sum += powers.back();
  }
  std::vector<Real> mixture;
  for (const double power : powers) mixture.push_back(static_cast<Real>(power / sum));
  return mixture;
}

template <class Real>
void MixtureBackward(const std::vector<Real>& mixture, Real* gradients) {
  double along = 0;
  for (size_t l = 0; l < mixture.size(); ++l) {
    along += static_cast<double>(mixture[l]) * static_cast<double>(gradients[l]);
  }
  for (size_t l = 0; l < mixture.size(); ++l) {
    gradients[l] = static_cast<Real>(static_cast<double>(mixture[l]) *
                                     (static_cast<double>(gradients[l]) - along));
  }
}

template std::vector<float> MemoryMixture(const float*, size_t);
template std::vector<double> MemoryMixture(const double*, size_t);
template void MixtureBackward(const std::vector<float>&, float*);
template void MixtureBackward(const std::vector<double>&, double*);

}  // namespace mnemon
