// SPDX-License-Identifier: MIT
// The feature map phi of fast weights. C++17, for nvcc.
//   DPFP of order nu: p(i, j) = x'_j x'_{(j-i) mod 2K}, i = 1 .. nu, x' = relu([x, -x])
//   ELU + 1:          p_j = x_j + 1 where x_j > 0, else exp(x_j)
// Both are divided by their sum: phi = p / (sum p + 1e-6), so that the delta rule does
// not amplify. ("Linear Transformers Are Secretly Fast Weight Programmers",
// sections 5.1 and 5.3; "Transformers are RNNs", Katharopoulos et al. 2020.)
#pragma once

#include <cstdint>

namespace mnemon {

struct FeatureMap {
  int64_t nu = 1;    // order of DPFP
  bool elu = false;  // ELU + 1 instead of DPFP

  // N for K = width inputs. Always even: with ELU + 1 it is K, which must be even.
  constexpr int64_t features(int64_t width) const {
    return elu ? width : 2 * nu * width;
  }
  constexpr bool operator==(const FeatureMap& other) const {
    return nu == other.nu && elu == other.elu;
  }
};

}  // namespace mnemon
