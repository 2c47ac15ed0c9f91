// SPDX-License-Identifier: MIT
#include "model/program/device/device_input.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace mnemon {

template <class T>
int64_t DeviceInput::Place(int64_t count) {
  constexpr int64_t kLine = 64;
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  const int64_t place = end_;
  end_ += (bytes + kLine - 1) / kLine * kLine;
  return place;
}

DeviceInput::DeviceInput(int64_t rows, void* memory)
    : memory_(static_cast<char*>(memory)),
      rows_(rows),
      header_(Place<StepHeader>(1)),
      key_ranges_(Place<KeyRange>(kMostReaches * rows)),
      first_group_(Place<int64_t>(kMostReaches * group_stride())),
      runs_(Place<FastWeightRun>(rows)),
      places_(Place<mnemon::Place>(rows)),
      positions_(Place<int64_t>(rows)),
      tokens_(Place<int32_t>(rows)),
      wanted_(Place<int32_t>(rows)),
      drawn_tokens_(Place<DrawnToken>(rows)),
      draws_(Place<device::DrawRow>(rows)),
      changes_(end_) {}

WaveView DeviceInput::wave() const {
  std::array<const KeyRange*, kMostReaches> ranges;
  for (size_t i = 0; i < ranges.size(); ++i) {
    ranges[i] = At<KeyRange>(key_ranges_) + static_cast<int64_t>(i) * rows_;
  }
  return {.rows = rows_,
          .groups = 0,
          .runs = rows_,
          .tokens = At<int32_t>(tokens_),
          .positions = At<int64_t>(positions_),
          .key_ranges = ranges,
          .places = At<mnemon::Place>(places_),
          .run = At<FastWeightRun>(runs_)};
}

void DeviceInput::Write(std::span<const TableChange> changes) {
  StepHeader& head = *new (header()) StepHeader;
  head.table_changes = static_cast<int64_t>(changes.size());
  std::ranges::copy(changes, this->changes());
}

void DeviceInput::WriteGroups(const StepRows& rows, int64_t wave) {
  const int64_t first = rows.waves[wave].first;
  for (size_t i = 0; i < kMostReaches; ++i) {
    if (rows.key_ranges[i].empty()) return;
    int64_t* const sums =
        first_group() + static_cast<int64_t>(i) * group_stride() + first + wave;
    sums[0] = 0;
    for (int64_t r = 0; r < rows.waves[wave].rows; ++r) {
      sums[r + 1] = sums[r] + KeyGroups(rows.key_ranges[i][first + r]);
    }
  }
}

void DeviceInput::Write(const StepRows& rows, bool remember,
                        std::span<const TableChange> changes) {
  Write(changes);
  StepHeader& head = *header();
  head.waves = static_cast<int64_t>(rows.waves.size());
  head.runs = static_cast<int64_t>(rows.runs.size());
  head.logits_rows = rows.logits_rows;
  head.appends_late = !rows.one_session_twice;
  MNEMON_CHECK(head.waves <= kMaxChunk);
  for (int64_t w = 0; w < head.waves; ++w) {
    const StepRows::Wave& wave = rows.waves[w];
    head.wave[w] = {.first = wave.first, .rows = wave.rows};
    WriteGroups(rows, w);
  }
  for (size_t i = 0; i < kMostReaches; ++i) {
    std::ranges::copy(rows.key_ranges[i],
                      At<KeyRange>(key_ranges_) + static_cast<int64_t>(i) * rows_);
  }
  std::ranges::copy(rows.runs, At<FastWeightRun>(runs_));
  std::ranges::copy(rows.places, At<mnemon::Place>(places_));
  std::ranges::copy(rows.positions, At<int64_t>(positions_));
  std::ranges::copy(rows.tokens, At<int32_t>(tokens_));
  if (!remember) {
    std::ranges::copy(rows.wanted, wanted());
  } else if (!rows.logits_of.empty()) {
    std::ranges::copy(rows.logits_of, wanted());
  } else {  // one wave
    std::fill_n(wanted(), rows.tokens.size(), -1);
    for (size_t i = 0; i < rows.wanted.size(); ++i) {
      wanted()[rows.wanted[i]] = static_cast<int32_t>(i);
    }
  }
}

}  // namespace mnemon
