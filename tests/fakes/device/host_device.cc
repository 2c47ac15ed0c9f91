// SPDX-License-Identifier: MIT
#include "tests/fakes/device/host_device.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "model/sequence/device.h"

namespace mnemon {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
// Addresses are moved by this much, out of what a process can have: only AsCpu
// subtracts it and reads the values.
constexpr uintptr_t kOpaque = uintptr_t{1} << 62;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {kType, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return stream;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

void Free(void* block) { std::free(block); }

// A new tensor of the device with `bytes` of memory.
at::Tensor Make(at::IntArrayRef sizes, at::IntArrayRef strides,
                c10::optional<at::ScalarType> type) {
  const auto meta = c10::scalarTypeToTypeMeta(type.value_or(at::kFloat));
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  const bool empty = std::count(sizes.begin(), sizes.end(), 0) > 0;
  const size_t bytes = empty ? 0 : static_cast<size_t>(last + 1) * meta.itemsize();
  void* block = std::malloc(std::max<size_t>(bytes, 1));
  void* opaque = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(block) | kOpaque);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       at::DataPtr(opaque, block, &Free, c10::Device(kType, 0)),
                       /*allocator=*/nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), meta);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor EmptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides,
                        c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                        c10::optional<at::Device>, c10::optional<bool>) {
  return Make(sizes, strides, type);
}

at::Tensor Empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> type,
                 c10::optional<at::Layout>, c10::optional<at::Device>,
                 c10::optional<bool>, c10::optional<at::MemoryFormat>) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::max<int64_t>(sizes[i], 1)) {
    strides[i] = stride;
  }
  return Make(sizes, strides, type);
}

// The same memory as a tensor of the CPU.
at::Tensor AsCpu(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const auto address = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  return at::from_blob(reinterpret_cast<void*>(address & ~kOpaque), tensor.sizes(),
                       tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool) {
  AsCpu(to).copy_(AsCpu(from));
  return to;
}

at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) {
    const at::Tensor fresh = Make(from.sizes(), from.strides(), to.scalar_type());
    to.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
    to.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides());
  }
  return CopyFrom(from, to, false);
}

at::Tensor View(const at::Tensor& self, at::IntArrayRef sizes) {
  return at::native::view(self, sizes);
}

at::Tensor ReshapeAlias(const at::Tensor& self, at::IntArrayRef sizes,
                        at::IntArrayRef strides) {
  return at::native::_reshape_alias(self, sizes, strides);
}

at::Tensor AsStrided(const at::Tensor& self, at::IntArrayRef sizes,
                     at::IntArrayRef strides, c10::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}

void RefuseMixture(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    std::vector<at::Tensor> tensors;
    if (stack[i].isTensor()) tensors = {stack[i].toTensor()};
    if (stack[i].isTensorList()) tensors = stack[i].toTensorVector();
    for (const at::Tensor& tensor : tensors) {
      TORCH_CHECK(!tensor.defined() || !tensor.is_cpu() || tensor.dim() == 0,
                  "HostDevice: ", op.schema().name(), " takes a tensor of the CPU, ",
                  tensor.toString(), tensor.sizes());
    }
  }
}

void Fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  RefuseMixture(op, *stack);
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", Empty);
  library.impl("empty_strided", EmptyStrided);
  library.impl("_copy_from", CopyFrom);
  library.impl("_copy_from_and_resize", CopyFromAndResize);
  library.impl("view", View);
  library.impl("_reshape_alias", ReshapeAlias);
  library.impl("as_strided", AsStrided);
}

}  // namespace

at::Device HostDevice() { return {kType, 0}; }

at::Device AcceleratorForTests() {
  const auto gpu = FindDevice("cuda");
  return gpu.ok() ? *gpu : HostDevice();
}

}  // namespace mnemon
