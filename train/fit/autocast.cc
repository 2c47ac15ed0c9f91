// SPDX-License-Identifier: MIT
#include "train/fit/autocast.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "base/check.h"

namespace mnemon {
namespace {

// libtorch 2.4 put one pair of functions in place of a pair per device, which it
// deprecates; 1.13 has only those.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
void Switch(at::DeviceType device, bool on) {
  at::autocast::set_autocast_dtype(device, at::kBFloat16);
  at::autocast::set_autocast_enabled(device, on);
}
#else
void Switch(at::DeviceType device, bool on) {
  if (device == at::kCUDA) {
    at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    at::autocast::set_enabled(on);
  } else {
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(on);
  }
}
#endif

}  // namespace

Autocast::Autocast(Precision precision, at::Device device)
    : on_(precision == Precision::kBf16), device_(device.type()) {
  if (!on_) return;
  MNEMON_CHECK(device.is_cpu() || device.is_cuda());
  Switch(device_, true);
  // All threads share the cache of cast weights, so one that clears it decides whether
  // another casts anew, and with that the order of its sums. A forward pass uses a
  // weight once: it has no need of a cache.
  at::autocast::set_autocast_cache_enabled(false);
}

Autocast::~Autocast() {
  if (!on_) return;
  Switch(device_, false);
  at::autocast::set_autocast_cache_enabled(true);
}

}  // namespace mnemon
