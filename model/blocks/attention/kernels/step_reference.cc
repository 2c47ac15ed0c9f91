// SPDX-License-Identifier: MIT
#include "model/blocks/attention/kernels/step_reference.h"

#include <algorithm>
#include <cmath>

#include "model/compute/reference_sums.h"

namespace mnemon::reference {
namespace {

float Score(const AttendCall& call, const KeyRange& key_range, const float* query,
            int64_t head, int64_t position) {
  const int64_t at = head * call.width, kept = call.KeptAt(head);
  const float* block = key_range.blocks[position / kBlockPositions - key_range.base];
  const int64_t place = position % kBlockPositions;
  const int64_t distance = key_range.query - position;
  const int64_t row = call.zero_row - distance;
  float score = 0;
  for (int64_t i = 0; i < call.width; ++i) {
    float key = block[call.key_offset + (kept + i) * kBlockPositions + place];
    if (call.relative_key != nullptr)
      key += call.relative_key[(at + i) * call.table_rows + row];
    score = std::fma(query[i], key, score);
  }
  if (call.fold_offset >= 0) {
    score += block[call.fold_offset + head * kBlockPositions + place];
  }
  if (call.relative_bias != nullptr) {
    score += call.relative_bias[head * call.table_rows + row];
  }
  score *= call.scale;
  if (call.cap > 0) score = call.cap * std::tanh(score);
  if (call.slopes != nullptr) {
    score = std::fma(-call.slopes[head], static_cast<float>(distance), score);
  }
  return score;
}

void TurnHead(const TurnCall& call, int64_t position, float* head,
              const NormView& norm) {
  if (norm.gain != nullptr) NormRow(head, call.width, norm, head);
  const AngleView& view = call.angles;
  if (view.coarse == nullptr) return;
  const double* const a = view.coarse + position / view.stride * view.turns;
  const double* const b = view.fine + position % view.stride * view.turns;
  const int64_t half = view.turns / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double sine = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
    const double cosine = a[2 * i + 1] * b[2 * i + 1] - a[2 * i] * b[2 * i];
    const auto s = static_cast<float>(sine * call.magnitude);
    const auto c = static_cast<float>(cosine * call.magnitude);
    const float x = head[i], y = head[half + i];
    head[i] = x * c - y * s;
    head[half + i] = y * c + x * s;
  }
}

}  // namespace

void Turn(const TurnCall& call, Share share) {
  const int64_t units = call.rows * call.groups;
  for (int64_t unit = share.begin(units); unit < share.end(units); ++unit) {
    const int64_t r = unit / call.groups, group = unit % call.groups;
    for (int64_t i = 0; i < call.group_heads(); ++i) {
      TurnHead(call, call.positions[r], call.heads.row(r) + call.HeadAt(group, i),
               i < call.queries ? call.query_norm : call.key_norm);
    }
  }
}

bool Append(const AppendCall& call, Share share) {
  bool finite = true;
  const int64_t units = call.rows * call.heads;
  for (int64_t unit = share.begin(units); unit < share.end(units); ++unit) {
    const int64_t r = unit / call.heads, h = unit % call.heads, at = h * call.width;
    const Place& place = call.places[r];
    const float* const key = call.key.row(r) + h * call.head_stride;
    const float* const value = call.value.row(r) + h * call.head_stride;
    for (int64_t i = 0; i < call.width; ++i) {
      place.block[call.key_offset + (at + i) * kBlockPositions + place.slot] = key[i];
      place.block[call.value_offset + at * kBlockPositions + place.slot * call.width +
                  i] = value[i];
      finite = finite && std::isfinite(key[i]) && std::isfinite(value[i]);
    }
    if (call.fold_offset < 0) continue;
    const float fold = Dot(key, call.query_bias + at, call.width);
    place.block[call.fold_offset + h * kBlockPositions + place.slot] = fold;
    finite = finite && std::isfinite(fold);
  }
  return finite;
}

void Attend(const AttendCall& call, Share share, float* /*scratch*/) {
  const int64_t units = call.rows * call.heads;
  for (int64_t unit = share.begin(units); unit < share.end(units); ++unit) {
    const int64_t r = unit / call.heads, h = unit % call.heads, at = h * call.width;
    const KeyRange& key_range = call.key_ranges[r];
    float* out = call.out.row(r);
    std::fill_n(out + at, call.width, 0.0f);
    const auto score = [&](int64_t p) {
      return Score(call, key_range, call.query.row(r) + call.QueryAt(h), h, p);
    };
    float most = -HUGE_VALF, total = 0;
    for (int64_t p = key_range.first; p <= key_range.last; ++p)
      most = std::max(most, score(p));
    for (int64_t p = key_range.first; p <= key_range.last; ++p) {
      total += std::exp(score(p) - most);
    }
    for (int64_t p = key_range.first; p <= key_range.last; ++p) {
      const float* block = key_range.blocks[p / kBlockPositions - key_range.base];
      const float* value = block + call.value_offset +
                           call.KeptAt(h) * kBlockPositions +
                           p % kBlockPositions * call.width;
      const float weight = std::exp(score(p) - most) / total;
      for (int64_t i = at; i < at + call.width; ++i) out[i] += weight * value[i - at];
    }
    if (call.gate_offset == 0) continue;
    const float* const gate = call.query.row(r) + call.QueryAt(h) + call.gate_offset;
    for (int64_t i = 0; i < call.width; ++i) out[at + i] /= 1.0f + std::exp(-gate[i]);
  }
}

}  // namespace mnemon::reference
