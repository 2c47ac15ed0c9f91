// SPDX-License-Identifier: MIT
#include "tests/fakes/device/device_operations.h"

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

#include "model/blocks/attention/kernels/attend_cuda.h"
#include "model/blocks/attention/kernels/turn_cuda.h"
#include "model/blocks/fast_weights/step_cuda.h"
#include "model/compute/cuda/linear.h"
#include "model/compute/cuda/tiled_linear.h"
#include "tests/fakes/device/device_emulator.h"

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

// Some launches, the first of which prepares all rows.
void TiledLinear(const LinearCall& call, Share share) {
  Launch launch(share);
  const int threads = launch.shape.threads;
  std::vector<device::Four> memory;
  Rows prepared;
  if (device::NeedsPreparedRows(call)) {
    prepared.stride = (device::PreparedFloats(call.weights) + 3) / 4 * 4;
    memory.resize(call.rows * prepared.stride / 4);
    prepared.data = memory.front().at;
    launch.Run(device::PrepareRowsFloats(call.weights), [&] {
      device::PrepareRows(call, {device::BlockIndex(), device::BlockCount()}, Shared(),
                          prepared);
    });
  }
  const int64_t floats =
      device::TiledLinearFloats(call.rows, 1 + Drawn(threads / device::kWarp));
  LinearCall part = call;
  for (const bool factor : {false, true}) {
    launch.Run(floats, [&] {
      device::TiledLinear(part, factor, prepared, launch.block(), {Shared(), floats});
    });
    if (call.gate == nullptr) return;
    part.weights = *call.gate;
  }
}

void Linear(const LinearCall& call, Share share, float* /*scratch*/) {
  // The workers of a call must agree.
  const bool tiled = (call.rows + call.weights.panel_count()) % 2 == 0;
  if (tiled && call.rows > 0) return TiledLinear(call, share);
  Launch launch(share);
  if (share.count > 1) launch.shape.blocks = 2;
  const int threads = launch.shape.threads;
  const int blocks = share.count * launch.shape.blocks;
  // For 1 to kTileRows rows at a time; with or without room to copy data ahead.
  const int64_t floats =
      device::LinearFloats(call, 1 + Drawn(device::kTileRows), threads);
  const LinearPlan without = device::PlanLinear(call, 1, blocks, threads, 0, 0);
  const int64_t ahead = Drawn(2) * (without.weights_at +
                                    int64_t{without.each + (without.more > 0 ? 1 : 0)} *
                                        without.unit_floats);
  const LinearPlan plan =
      device::PlanLinear(call, call.rows, blocks, threads, floats, ahead);
  launch.Run(floats + ahead, [&] {
    const device::LinearBlock block(call, plan, launch.block().index, Shared());
    block.Bring();
    device::AwaitCopies();
    device::Barrier();
    block.Run(Shared() + ahead);
  });
}

void Turn(const TurnCall& call, Share share) {
  Launch launch(share);
  launch.Run(0, [&] { device::Turn(call, launch.block()); });
}

bool Append(const AppendCall& call, Share share) {
  Launch launch(share);
  uint32_t wrong = 0;
  launch.Run(0, [&] { device::Append(call, launch.block(), &wrong); });
  return wrong == 0;
}

// Some rows of a call, as a call.
AttendCall RowsOf(AttendCall call, Part rows) {
  call.rows = rows.size();
  call.query.data += rows.begin * call.query.stride;
  call.out.data += rows.begin * call.out.stride;
  call.key_ranges += rows.begin;
  return call;
}

// Throws std::logic_error where it leaves a counter that is not zero.
void LaunchAttend(const AttendCall& call) {
  Launch launch({});
  std::vector<int64_t> first_group(1);
  for (int64_t r = 0; r < call.rows; ++r) {
    first_group.push_back(first_group.back() + KeyGroups(call.key_ranges[r]));
  }
  std::vector<float> groups(device::AttendScratchFloats(call, first_group.back()),
                            HUGE_VALF);
  std::vector<uint32_t> arrived(call.rows * call.heads);
  const int64_t floats = (device::AttendFloats(call, launch.shape.threads) + 3) / 4 * 4;
  const int64_t values = Drawn(2) * kGroupBlocks * kBlockPositions * call.width;
  launch.Run(floats + values, [&] {
    device::Attend(call, {}, launch.block(), Shared(), {Shared() + floats, values},
                   {first_group.data(), groups.data(), arrived.data()});
  });
  if (std::ranges::count(arrived, 0u) != call.rows * call.heads)
    throw std::logic_error("groups are still waited for");
}

// The heads of a row meet within a launch: a worker's own, which are those that it
// appended to, as whole rows and groups of heads of a row.
void Attend(const AttendCall& call, Share share, float* /*scratch*/) {
  const int64_t all = call.heads / call.sharing;
  const int64_t units = call.rows * all, end = share.end(units);
  for (int64_t unit = share.begin(units); unit < end;) {
    const int64_t row = unit / all, group = unit % all;
    const int64_t rows = group > 0 ? 0 : (end - unit) / all;
    const int64_t groups = rows > 0 ? all : std::min(all - group, end - unit);
    LaunchAttend(GroupsOf(RowsOf(call, {row, row + std::max<int64_t>(rows, 1)}),
                          {group, group + groups}));
    unit += std::max<int64_t>(rows, 1) * groups;
  }
}

bool FastWeights(const FastWeightCall& call, Share share, float* /*scratch*/) {
  Launch launch(share);
  const int threads = launch.shape.threads;
  const int64_t least = device::FastWeightLeastFloats(call, threads);
  const int64_t floats =
      Drawn(2) == 0 ? device::FastWeightFloats(call, threads, call.runs * call.heads)
                    : least + Drawn(2) * device::FastWeightHeldFloats(call);
  uint32_t wrong = 0;
  launch.Run(floats, [&] {
    device::FastWeights(call, launch.block(), {Shared(), floats}, &wrong);
  });
  return wrong == 0;
}

void Mix(const MixCall& call, Share share) {
  Launch launch(share);
  launch.Run(0, [&] { device::Mix(call, launch.block()); });
}

void Norm(const NormCall& call, Share share) {
  // Activations after a norm belong to the encoder, which no device computes.
  if (call.act != Act::kNone) return AllCpuOperations().front().norm(call, share);
  Launch launch(share);
  launch.Run(0, [&] { device::Norm(call, launch.block()); });
}

}  // namespace

bool CanEmulateDevices() { return __tsan_init == nullptr; }

const CpuOperations& DeviceOperations() {
  static const CpuOperations& cpu = AllCpuOperations().front();
  static const CpuOperations operations = {
      "device", "mma",  Embed,       Linear, cpu.parts, cpu.fold,   Turn,
      Append,   Attend, FastWeights, Mix,    Norm,      cpu.softmax};
  return operations;
}

}  // namespace mnemon
