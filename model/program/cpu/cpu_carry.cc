// SPDX-License-Identifier: MIT
#include "model/program/cpu/cpu_carry.h"

#include <algorithm>

#include "model/compute/row_buffer.h"

namespace mnemon {

void CpuCarryWriter::Append(const CarryRows& rows) {
  const bool multiplied = rows.matrix.outputs > 0;
  const auto count = static_cast<int64_t>(rows.places.size());
  const int64_t at_once = std::min(count, kRowsAtOnce);
  RowBuffer made;
  if (multiplied) {
    made.Resize(at_once, rows.matrix.outputs);
    team_.Reserve(LinearScratch(at_once, rows.width));
  }
  for (int64_t first = 0; first < count; first += at_once) {
    const int64_t some = std::min(at_once, count - first);
    const ConstRows given{rows.rows + first * rows.width, rows.width};
    const ConstRows from = multiplied ? ConstRows(made.rows()) : given;
    team_.Run([&](CpuWorker& k) {
      if (multiplied) {
        k.Linear({.rows = some,
                  .in = given,
                  .norm = rows.norm,
                  .weights = rows.matrix,
                  .out = made.rows()});
        k.Sync();
      }
      for (const CarryRows::To& to : rows.to) {
        AppendCall call = to.append;
        call.rows = some;
        call.places = rows.places.data() + first;
        call.key = {from.data + to.key, from.stride};
        call.value = {from.data + to.value, from.stride};
        call.head_stride = to.head_stride;
        k.Append(call);
      }
    });
  }
}

void CpuCarryWriter::Write(std::span<const float> from, float* to) {
  std::ranges::copy(from, to);
}

}  // namespace mnemon
