// SPDX-License-Identifier: MIT
// CarryWriter of the CPU's team.
#pragma once

#include "model/operations/cpu_team.h"
#include "model/program/step/carry_import.h"

namespace mnemon {

class CpuCarryWriter final : public CarryWriter {
 public:
  explicit CpuCarryWriter(CpuTeam& team) : team_(team) {}

  void Append(const CarryRows& rows) override;
  void Write(std::span<const float> from, float* to) override;

 private:
  CpuTeam& team_;
};

}  // namespace mnemon
