// SPDX-License-Identifier: MIT
// The writer of carries of a device.
#pragma once

#include "absl/status/status.h"
#include "model/program/carry_import.h"
#include "model/program/device_stagings.h"
#include "model/program/device_step.h"

namespace mnemon {

// Goes through the buffers of a step: REQUIRES that none is under way.
class DeviceCarryWriter final : public CarryWriter {
 public:
  // All outlive it. `remembers`: the program has a RememberOp.
  DeviceCarryWriter(DeviceDriver& driver, DeviceStep& step, DeviceStagings& stagings,
                    bool remembers)
      : driver_(driver), step_(step), stagings_(stagings), remembers_(remembers) {}
  // Collects what it has queued.
  ~DeviceCarryWriter() override { Finish().IgnoreError(); }

  void Append(const CarryRows& rows) override;
  void Write(std::span<const float> from, float* to) override;

  // Why the device failed, once all is done.
  absl::Status Finish();
  // After Finish: whether what was appended is finite.
  bool finite() const { return run_.wrong == 0; }

 private:
  DeviceDriver& driver_;
  DeviceStep& step_;
  DeviceStagings& stagings_;
  const bool remembers_;
  DeviceRun run_;
};

}  // namespace mnemon
