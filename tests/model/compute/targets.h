// SPDX-License-Identifier: MIT
// Common parts of the tests of the kernels: every target of this machine, random
// numbers, and calls divided among workers.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/compute/packed_weights.h"
#include "model/operations/cpu_operations.h"
#include "tests/fakes/device/device_operations.h"
#include "tests/fakes/drawn_floats.h"

namespace mnemon {

inline constexpr WeightFormat kFormats[] = {WeightFormat::kFp32, WeightFormat::kBf16,
                                            WeightFormat::kInt8};

inline constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// Row-major weights [outputs, inputs].
struct PlainMatrix {
  const float* weights = nullptr;
  const float* bias = nullptr;  // [outputs]; null: none
  int64_t outputs = 0;
};

// Parts concatenated, in the format of `packed`. If one part has a bias, the others get
// zeros. `slice`: see PackedWeights::Room.
inline MatrixView Pack(PackedWeights& packed, std::span<const PlainMatrix> parts,
                       int64_t inputs, int64_t slice = 0) {
  int64_t outputs = 0;
  bool bias = false;
  for (const PlainMatrix& part : parts) {
    outputs += part.outputs;
    bias = bias || part.bias != nullptr;
  }
  const MatrixView room = packed.Room(packed.format(), outputs, inputs, bias, slice);
  int64_t at = 0;
  for (const PlainMatrix& part : parts) {
    const auto rows = static_cast<size_t>(part.outputs);
    PackedWeights::Fill(room, at, {part.weights, rows * static_cast<size_t>(inputs)});
    if (part.bias != nullptr) PackedWeights::FillBias(room, at, {part.bias, rows});
    at += part.outputs;
  }
  return room;
}

// All operations of this machine, including the reference, and the emulated device.
inline std::vector<CpuOperations> AllOperations() {
  std::vector<CpuOperations> all(AllCpuOperations().begin(), AllCpuOperations().end());
  if (CanEmulateDevices()) all.push_back(DeviceOperations());
  return all;
}

class TargetTest : public testing::TestWithParam<std::string> {
 protected:
  const CpuOperations& target() const {
    return emulated() ? DeviceOperations() : *FindCpuOperations(GetParam()).value();
  }
  const CpuOperations& reference() const { return ReferenceOperations(); }
  // The reference for bits.
  const CpuOperations& best() const { return AllCpuOperations().front(); }
  // Whether it is the emulated device, which takes a thousand times as long.
  bool emulated() const { return GetParam() == DeviceOperations().target; }
};

// All targets but the reference, plus the emulated device.
inline std::vector<std::string> TargetsUnderTest() {
  std::vector<std::string> targets = CpuTargets();
  targets.pop_back();
  if (CanEmulateDevices()) targets.emplace_back(DeviceOperations().target);
  return targets;
}

inline std::string TargetName(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace mnemon
