// SPDX-License-Identifier: MIT
// Backward, with do the gradient of o:
//   da_j = mask_j do.v_j,  ds_j = a_j (da_j - sum_i a_i da_i)
//   dv_j = mask_j a_j do,  dk_j = ds_j q,  dq = sum_j ds_j k_j,  dbias_j = ds_j
#include "model/layers/memory_attention.h"

#include <algorithm>
#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"

namespace mnemon {
namespace {

// Enough independent sums for the compiler to use vectors.
constexpr int64_t kLanes = 8;

template <class T>
T Dot(const T* a, const T* b, int64_t width) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  T sum = 0;
  for (; i < width; ++i) sum += a[i] * b[i];
  for (const T lane : lanes) sum += lane;
  return sum;
}

// y += s x
template <class T>
void AddScaled(T s, const T* x, T* y, int64_t width) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) y[i + l] += s * x[i + l];
  }
  for (; i < width; ++i) y[i] += s * x[i];
}

// y = s x
template <class T>
void Scaled(T s, const T* x, T* y, int64_t width) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) y[i + l] = s * x[i + l];
  }
  for (; i < width; ++i) y[i] = s * x[i];
}

// scores [n] -> their softmax, in place.
template <class T>
void Softmax(T* scores, int64_t n) {
  const T largest = *std::max_element(scores, scores + n);
  T sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += scores[j] = std::exp(scores[j] - largest);
  for (int64_t j = 0; j < n; ++j) scores[j] /= sum;
}

// Rows are independent; each thread takes at least 2^15 products.
template <class Body>
void ForRows(const at::Tensor& keys, const Body& body) {
  const int64_t products = std::max<int64_t>(1, keys.size(1) * keys.size(2));
  at::parallel_for(0, keys.size(0), (1 << 15) / products + 1,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; ++r) body(r);
                   });
}

// attention [R, n] holds the bias first and a afterwards; out [R, K] starts at 0.
template <class T>
void Forward(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
             const at::Tensor& mask, at::Tensor& attention, at::Tensor& out) {
  const int64_t n = keys.size(1), width = keys.size(2);
  const int64_t row = keys.stride(0);
  ForRows(keys, [&](int64_t r) {
    const T* k = keys.data_ptr<T>() + r * row;
    const T* v = values.data_ptr<T>() + r * row;
    const T* m = mask.defined() ? mask.data_ptr<T>() + r * n : nullptr;
    T* a = attention.data_ptr<T>() + r * n;
    const T* query = q.data_ptr<T>() + r * width;
    T* o = out.data_ptr<T>() + r * width;
    for (int64_t j = 0; j < n; ++j) a[j] += Dot(query, k + j * width, width);
    Softmax(a, n);
    for (int64_t j = 0; j < n; ++j) {
      AddScaled(m != nullptr ? m[j] * a[j] : a[j], v + j * width, o, width);
    }
  });
}

struct Gradients {
  at::Tensor q;       // [R, K], starts at 0
  at::Tensor bias;    // [R, n]
  at::Tensor keys;    // [R, n, K]
  at::Tensor values;  // [R, n, K]
};

template <class T>
void Backward(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
              const at::Tensor& mask, const at::Tensor& attention,
              const at::Tensor& grad, Gradients& out) {
  const int64_t n = keys.size(1), width = keys.size(2);
  const int64_t row = keys.stride(0);
  ForRows(keys, [&](int64_t r) {
    const T* k = keys.data_ptr<T>() + r * row;
    const T* v = values.data_ptr<T>() + r * row;
    const T* m = mask.defined() ? mask.data_ptr<T>() + r * n : nullptr;
    const T* a = attention.data_ptr<T>() + r * n;
    const T* query = q.data_ptr<T>() + r * width;
    const T* go = grad.data_ptr<T>() + r * width;
    T* gq = out.q.data_ptr<T>() + r * width;
    T* gs = out.bias.data_ptr<T>() + r * n;
    T* gk = out.keys.data_ptr<T>() + r * n * width;
    T* gv = out.values.data_ptr<T>() + r * n * width;
    T mean = 0;
    for (int64_t j = 0; j < n; ++j) {
      const T kept = m != nullptr ? m[j] : T{1};
      gs[j] = kept * Dot(go, v + j * width, width);
      mean += a[j] * gs[j];
      Scaled(kept * a[j], go, gv + j * width, width);
    }
    for (int64_t j = 0; j < n; ++j) {
      gs[j] = a[j] * (gs[j] - mean);
      AddScaled(gs[j], k + j * width, gq, width);
      Scaled(gs[j], query, gk + j * width, width);
    }
  });
}

struct AttendToRowsNode : torch::autograd::Function<AttendToRowsNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& q, const at::Tensor& bias,
                            const at::Tensor& keys, const at::Tensor& values,
                            const c10::optional<at::Tensor>& maybe_mask) {
    const at::Tensor mask = maybe_mask.value_or(at::Tensor());
    at::Tensor attention = bias.clone(at::MemoryFormat::Contiguous);
    at::Tensor out = at::zeros_like(q);
    AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "AttendToRows", [&] {
      Forward<scalar_t>(q, keys, values, mask, attention, out);
    });
    context->save_for_backward({q, keys, values, mask, attention});
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &keys = saved[1];
    Gradients out{.q = at::zeros_like(q),
                  .bias = at::empty({keys.size(0), keys.size(1)}, q.options()),
                  .keys = at::empty(keys.sizes(), q.options()),
                  .values = at::empty(keys.sizes(), q.options())};
    AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "AttendToRows", [&] {
      Backward<scalar_t>(q, keys, saved[2], saved[3], saved[4], grads[0].contiguous(),
                         out);
    });
    return {out.q, out.bias, out.keys, out.values, at::Tensor()};
  }
};

}  // namespace

at::Tensor AttendToRows(const at::Tensor& q, const at::Tensor& bias,
                        const at::Tensor& keys, const at::Tensor& values,
                        const at::Tensor& mask) {
  MNEMON_CHECK(keys.stride(2) == 1 && keys.stride(1) == keys.size(2) &&
               keys.strides() == values.strides());
  // A node takes no undefined tensors.
  return AttendToRowsNode::apply(
      q.contiguous(), bias, keys, values,
      mask.defined() ? c10::optional<at::Tensor>(mask) : c10::nullopt);
}

}  // namespace mnemon
