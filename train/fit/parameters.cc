// SPDX-License-Identifier: MIT
#include "train/fit/parameters.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "base/check.h"
#include "model/sequence/device.h"

namespace mnemon {
namespace {

// Every slice starts on a cache line.
constexpr int64_t kParameterAlignment = 16;

int64_t RoundUp(int64_t n) {
  return (n + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

}  // namespace

Parameters::Parameters(Model& model) {
  c10::AutoGradMode no_graph(false);
  int64_t size = 0;
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    slices_.push_back({name, size, weight.sizes().vec()});
    size += RoundUp(weight.numel());
  });
  values_ = at::zeros({size}, at::TensorOptions(at::kFloat).device(DeviceOf(model)));
  size_t i = 0;
  model.Visit([&](const std::string&, at::Tensor& weight) {
    View(values_, slices_[i++]).copy_(weight);
  });
}

at::Tensor Parameters::Bind(Model& model) const {
  c10::AutoGradMode no_graph(false);
  at::Tensor gradients = MakeBuffer();
  size_t i = 0;
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    MNEMON_CHECK(i < slices_.size() && slices_[i].name == name);
    weight = View(values_, slices_[i]).detach().requires_grad_(true);
    weight.mutable_grad() = View(gradients, slices_[i]);
    ++i;
  });
  return gradients;
}

void Parameters::Share(Model& model) const {
  c10::AutoGradMode no_graph(false);
  size_t i = 0;
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    MNEMON_CHECK(i < slices_.size() && slices_[i].name == name);
    weight = View(values_, slices_[i++]).detach();
  });
}

FlatLayout Parameters::Layout() const {
  FlatLayout layout;
  for (const Slice& slice : slices_) {
    layout.Add(slice.name, slice.begin, c10::multiply_integers(slice.shape));
  }
  return layout;
}

at::Tensor Parameters::View(const at::Tensor& buffer, const Slice& slice) const {
  return buffer.narrow(0, slice.begin, c10::multiply_integers(slice.shape))
      .view(slice.shape);
}

at::Tensor Parameters::MakeBuffer() const { return at::zeros_like(values_); }

NamedTensorList Parameters::Slices(const at::Tensor& buffer,
                                   const std::string& prefix) const {
  NamedTensorList named;
  for (const Slice& slice : slices_) {
    named.emplace_back(prefix + slice.name, View(buffer, slice));
  }
  return named;
}

}  // namespace mnemon
