// SPDX-License-Identifier: MIT
// What the host writes for a step on a device, in one piece that is copied there: a
// header, and arrays for up to so many rows, at fixed places. Table changes come last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "model/operations/cuda/step_call.h"
#include "model/program/step_calls.h"
#include "model/program/step_rows.h"

namespace mnemon {

class DeviceInput {
 public:
  // For rows up to `rows`, at `memory` of the host or of the device; nothing is read or
  // written.
  DeviceInput(int64_t rows, void* memory);

  // With so many table changes.
  int64_t bytes(int64_t changes) const {
    return changes_ + changes * static_cast<int64_t>(sizeof(TableChange));
  }
  StepHeader* header() const { return At<StepHeader>(0); }
  TableChange* changes() const { return At<TableChange>(changes_); }
  // Per row: of a program with a RememberOp the row of logits of each, or -1; else the
  // rows whose logits are wanted.
  int32_t* wanted() const { return At<int32_t>(wanted_); }
  DrawnToken* drawn_tokens() const { return At<DrawnToken>(drawn_tokens_); }
  device::DrawRow* draws() const { return At<device::DrawRow>(draws_); }
  int32_t* tokens() const { return At<int32_t>(tokens_); }
  // As of AttendScratch, of each reach `group_stride` apart.
  int64_t* first_group() const { return At<int64_t>(first_group_); }
  int64_t group_stride() const { return rows_ + std::min<int64_t>(rows_, kMaxChunk); }
  // Of the first wave, as if it had all rows.
  WaveView wave() const;

  // Writes rows, and changes; or changes alone. Draws and drawn tokens: none. REQUIRES:
  // memory of the host, with room for them.
  void Write(const StepRows& rows, bool remember, std::span<const TableChange> changes);
  void Write(std::span<const TableChange> changes);

 private:
  template <class T>
  T* At(int64_t place) const {
    return reinterpret_cast<T*>(memory_ + place);
  }
  void WriteGroups(const StepRows& rows, int64_t wave);
  // Takes the next place, for `count` of T.
  template <class T>
  int64_t Place(int64_t count);

  char* const memory_;
  const int64_t rows_;
  int64_t end_ = 0;
  const int64_t header_, key_ranges_, first_group_, runs_, places_, positions_, tokens_,
      wanted_, drawn_tokens_, draws_, changes_;
};

}  // namespace mnemon
