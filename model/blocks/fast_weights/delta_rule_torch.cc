// SPDX-License-Identifier: MIT
// A chunk of C tokens with entry state W0 (Kf, Qf [C, N]; Val [C, K]; b = beta):
//   A X = diag(b) (Val - Kf W0^T),  A = I + strict(diag(b) Kf Kf^T)
//   Y = Qf W0^T + lower(Qf Kf^T) X,  W1 = W0 + X^T Kf
// Terms independent of W0 are computed for all chunks at once (the WY form):
//   [U | G] = A^-1 diag(b) [Val | Kf],  X = U - G W0^T
// The last chunk is padded with idle rows (b = 0, k = 0), which leave W unchanged.
#include "model/blocks/fast_weights/delta_rule_torch.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tril.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace mnemon {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr int64_t kLongestChunk = 32;

struct ChunkGrid {
  int64_t rows, chunks, length;

  // x [R, T, E] -> [R * chunks, C, E].
  at::Tensor Cut(const at::Tensor& x) const {
    const int64_t idle = chunks * length - x.size(1);
    const at::Tensor whole = idle == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, idle});
    return whole.reshape({rows * chunks, length, x.size(2)});
  }
  // x [R * chunks, C, E] -> `chunks` times [R, C, E].
  std::vector<at::Tensor> Split(const at::Tensor& x) const {
    return x.view({rows, chunks, x.size(1), x.size(2)}).unbind(1);
  }
};

ChunkGrid MakeGrid(int64_t rows, int64_t time) {
  const int64_t chunks = (time + kLongestChunk - 1) / kLongestChunk;
  return {.rows = rows, .chunks = chunks, .length = (time + chunks - 1) / chunks};
}

}  // namespace

at::Tensor DpfpProducts(const at::Tensor& x, int64_t nu) {
  const at::Tensor halves = at::relu(at::cat({x, -x}, -1));
  std::vector<at::Tensor> products;
  for (int64_t i = 1; i <= nu; ++i) {
    products.push_back(halves * at::roll(halves, i, -1));
  }
  return at::cat(products, -1);
}

at::Tensor Dpfp(const at::Tensor& x, int64_t nu) {
  const at::Tensor products = DpfpProducts(x, nu);
  return products / (products.sum(-1, /*keepdim=*/true) + kEpsilon);
}

at::Tensor EluFeatures(const at::Tensor& x) {
  const at::Tensor p = at::elu(x) + 1;
  return p / (p.sum(-1, /*keepdim=*/true) + kEpsilon);
}

at::Tensor RunFastWeights(const FastWeightInput& input, FastWeightState& state) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const int64_t time = input.q.size(1), width = input.v.size(2);
  const ChunkGrid grid = MakeGrid(input.q.size(0), time);
  const int64_t length = grid.length;
  const at::Tensor q = grid.Cut(input.q), k = grid.Cut(input.k), v = grid.Cut(input.v);

  at::Tensor values = v;  // U of the delta rule; the sum rule writes v itself
  at::Tensor readers = q;
  if (input.beta.defined()) {
    const at::Tensor beta = grid.Cut(input.beta);
    // Only the strict lower triangle of the matrix is read.
    const at::Tensor solved = at::linalg_solve_triangular(
        beta * at::bmm(k, k.transpose(1, 2)), beta * at::cat({v, k}, -1),
        /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
    values = solved.narrow(2, 0, width);
    readers = at::cat({q, solved.narrow(2, width, k.size(2))}, 1);
  }
  const std::vector<at::Tensor> keys = grid.Split(k);
  const std::vector<at::Tensor> writes = grid.Split(values.contiguous());
  const std::vector<at::Tensor> reads = grid.Split(readers);
  const std::vector<at::Tensor> weights =
      grid.Split(at::tril(at::bmm(q, k.transpose(1, 2))));

  std::vector<at::Tensor> outputs;
  for (int64_t c = 0; c < grid.chunks; ++c) {
    const at::Tensor read = at::bmm(reads[c], state.w.transpose(1, 2));
    const at::Tensor x =
        input.beta.defined() ? writes[c] - read.narrow(1, length, length) : writes[c];
    outputs.push_back(at::baddbmm(read.narrow(1, 0, length), weights[c], x));
    state.w = at::baddbmm(state.w, x.transpose(1, 2), keys[c]);
  }
  at::Tensor y = at::cat(outputs, 1).narrow(1, 0, time);
  if (state.z.defined()) {
    const at::Tensor z = state.z.unsqueeze(1) + at::cumsum(input.k, 1);
    y = y / ((input.q * z).sum(-1, /*keepdim=*/true) + kEpsilon);
    state.z = z.select(1, time - 1);
  }
  return y;
}

}  // namespace mnemon
