// SPDX-License-Identifier: MIT
#include "tests/fakes/device_operations.h"

#include <random>
#include <vector>

#include "model/kernels/cuda/attend.h"
#include "model/kernels/cuda/fast_weights.h"
#include "model/kernels/cuda/linear.h"
#include "tests/fakes/device_emulator.h"

// Null without ThreadSanitizer.
extern "C" __attribute__((weak)) void __tsan_init();

namespace mnemon {
namespace {

int Drawn(int most) {
  static thread_local std::minstd_rand random(20);
  return static_cast<int>(random() % static_cast<unsigned>(most));
}

// A launch whose blocks together are `worker`.
struct Launch {
  DeviceLaunch shape{.blocks = 1 + Drawn(8), .threads = 32 * (1 + Drawn(4))};
  Share worker;

  explicit Launch(Share share) : worker(share) {}

  Share block() const {
    return {worker.index * shape.blocks + device::BlockIndex(),
            worker.count * shape.blocks};
  }
  template <class Kernel>
  void Run(int64_t shared_floats, const Kernel& kernel) {
    shape.shared_bytes = shared_floats * static_cast<int64_t>(sizeof(float));
    RunOnDevice(shape, static_cast<uint64_t>(Drawn(1 << 30)), kernel);
  }
};

float* Shared() { return static_cast<float*>(device::SharedMemory()); }

void Embed(const EmbedCall& call, Share share) {
  Launch launch(share);
  launch.Run(0, [&] { device::Embed(call, launch.block()); });
}

// For 1 to kTileRows rows at once.
int64_t SomeProductFloats(const MatrixView& matrix, int64_t slices, int threads) {
  return device::ProductFloats(matrix, slices, 1 + Drawn(device::kTileRows), threads);
}

void Linear(const LinearCall& call, Share share, float* /*scratch*/) {
  Launch launch(share);
  const int64_t floats =
      SomeProductFloats(call.weights, call.weights.slices(), launch.shape.threads);
  launch.Run(floats, [&] { device::Linear(call, launch.block(), {Shared(), floats}); });
}

void Parts(const PartsCall& call, Share share, float* /*scratch*/) {
  Launch launch(share);
  const int64_t floats =
      SomeProductFloats(call.weights, call.slices.size(), launch.shape.threads);
  launch.Run(floats, [&] { device::Parts(call, launch.block(), {Shared(), floats}); });
}

void Fold(const FoldCall& call, Share share) {
  Launch launch(share);
  launch.Run(0, [&] { device::Fold(call, launch.block()); });
}

bool Append(const AppendCall& call, Share share) {
  Launch launch(share);
  uint32_t wrong = 0;
  launch.Run(0, [&] { device::Append(call, launch.block(), &wrong); });
  return wrong == 0;
}

void Attend(const AttendCall& call, Share share, float* /*scratch*/) {
  Launch launch(share);
  const int threads = launch.shape.threads;
  std::vector<std::vector<float>> scratch;
  for (int b = 0; b < launch.shape.blocks; ++b) {
    scratch.emplace_back(device::AttendScratch(call, threads), HUGE_VALF);
  }
  launch.Run(device::AttendFloats(threads), [&] {
    device::Attend(call, launch.block(), Shared(),
                   scratch[static_cast<size_t>(device::BlockIndex())].data());
  });
}

bool FastWeights(const FastWeightCall& call, Share share, float* /*scratch*/) {
  Launch launch(share);
  uint32_t wrong = 0;
  launch.Run(device::FastWeightFloats(call, launch.shape.threads),
             [&] { device::FastWeights(call, launch.block(), Shared(), &wrong); });
  return wrong == 0;
}

void Mix(const MixCall& call, Share share) {
  Launch launch(share);
  launch.Run(0, [&] { device::Mix(call, launch.block()); });
}

}  // namespace

bool CanEmulateDevices() { return __tsan_init == nullptr; }

const CpuOperations& DeviceOperations() {
  static const CpuOperations& cpu = AllCpuOperations().front();
  static const CpuOperations operations = {"device",    "dot4", Embed,    Linear,
                                           Parts,       Fold,   Append,   Attend,
                                           FastWeights, Mix,    cpu.norm, cpu.softmax};
  return operations;
}

}  // namespace mnemon
