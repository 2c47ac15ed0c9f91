// SPDX-License-Identifier: MIT
// CarryWriter of a device.
#pragma once

#include "absl/status/status.h"
#include "model/program/device/device_stagings.h"
#include "model/program/device/device_step.h"
#include "model/program/step/carry_import.h"

namespace mnemon {

// Uses the buffers of a step. REQUIRES: no step is under way.
class DeviceCarryWriter final : public CarryWriter {
 public:
  // All arguments must outlive it. `remembers`: the program has a RememberOp.
  DeviceCarryWriter(DeviceDriver& driver, DeviceStep& step, DeviceStagings& stagings,
                    bool remembers)
      : driver_(driver), step_(step), stagings_(stagings), remembers_(remembers) {}
  // Waits for queued work.
  ~DeviceCarryWriter() override { Finish().IgnoreError(); }

  void Append(const CarryRows& rows) override;
  void Write(std::span<const float> from, float* to) override;

  // Waits until all is done and returns the error of the device, if any.
  absl::Status Finish();
  // Whether everything appended is finite. REQUIRES: Finish has returned.
  bool finite() const { return run_.wrong == 0; }

 private:
  DeviceDriver& driver_;
  DeviceStep& step_;
  DeviceStagings& stagings_;
  const bool remembers_;
  DeviceRun run_;
};

}  // namespace mnemon
