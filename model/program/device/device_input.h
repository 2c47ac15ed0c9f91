// SPDX-License-Identifier: MIT
// Input of a step on a device: a header, arrays for a fixed number of rows at fixed
// offsets, and table changes at the end. The host writes it as one piece, which is
// copied to the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "model/operations/cuda/step_call.h"
#include "model/program/step/step_calls.h"
#include "model/program/step/step_rows.h"

namespace mnemon {

class DeviceInput {
 public:
  // Input for up to `rows` rows at `memory`, on the host or the device; the memory is
  // not touched.
  DeviceInput(int64_t rows, void* memory);

  // Size with `changes` table changes.
  int64_t bytes(int64_t changes) const {
    return changes_ + changes * static_cast<int64_t>(sizeof(TableChange));
  }
  StepHeader* header() const { return At<StepHeader>(0); }
  TableChange* changes() const { return At<TableChange>(changes_); }
  // With a RememberOp: the row of logits of each row, or -1. Else: the rows whose
  // logits are wanted.
  int32_t* wanted() const { return At<int32_t>(wanted_); }
  DrawnToken* drawn_tokens() const { return At<DrawnToken>(drawn_tokens_); }
  device::DrawRow* draws() const { return At<device::DrawRow>(draws_); }
  int32_t* tokens() const { return At<int32_t>(tokens_); }
  // See AttendScratch; one array per reach, `group_stride` apart.
  int64_t* first_group() const { return At<int64_t>(first_group_); }
  int64_t group_stride() const { return rows_ + std::min<int64_t>(rows_, kMaxChunk); }
  // View of the first wave as if it had all rows.
  WaveView wave() const;

  // Writes rows and changes, or only changes, without draws and drawn tokens. REQUIRES:
  // host memory with room for them.
  void Write(const StepRows& rows, bool remember, std::span<const TableChange> changes);
  void Write(std::span<const TableChange> changes);

 private:
  template <class T>
  T* At(int64_t place) const {
    return reinterpret_cast<T*>(memory_ + place);
  }
  void WriteGroups(const StepRows& rows, int64_t wave);
  // Reserves the next place, for `count` objects of type T.
  template <class T>
  int64_t Place(int64_t count);

  char* const memory_;
  const int64_t rows_;
  int64_t end_ = 0;
  const int64_t header_, key_ranges_, first_group_, runs_, places_, positions_, tokens_,
      wanted_, drawn_tokens_, draws_, changes_;
};

}  // namespace mnemon
