// SPDX-License-Identifier: MIT
#include "model/state/state_image.h"

#include <algorithm>
#include <new>
#include <vector>

#include "base/check.h"
#include "base/memory/aligned_floats.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "model/compute/kernels.h"

namespace mnemon {
namespace {

// Blocks that are copied together, with a single wait for a device.
constexpr int64_t kTogether = 64;

// Contiguous numbers of a row in a block.
int64_t RunOf(const StateEntry& entry) {
  switch (entry.layout) {
    case BlockLayout::kRows:
      return entry.elements();
    case BlockLayout::kColumns:
      return 1;
    case BlockLayout::kHeadRows:
      return entry.shape.back();
  }
  return 1;
}

// A growing entry and its offsets in a block and in the image.
struct GrowingEntry {
  int64_t in_block;
  int64_t in_image;
  int64_t elements;
  int64_t run;

  // Calls `copy` with the offsets in block and image of each run of row `row` of a
  // block, which is row `image_row` of the image.
  template <class Copy>
  void ForEachRun(int64_t row, int64_t image_row, const Copy& copy) const {
    // Runs of consecutive elements follow each other for all rows of a block.
    const int64_t stride = run * kBlockPositions;
    const int64_t image = in_image + image_row * elements;
    for (int64_t r = 0; r * run < elements; ++r) {
      copy(in_block + r * stride + row * run, image + r * run, run);
    }
  }
};

}  // namespace

int64_t StateImage::FirstRow(const StateSpec& spec, int64_t computed) {
  return spec.growth() == Growth::kRing
             ? std::max<int64_t>(0, computed - spec.capacity())
             : 0;
}

int64_t StateImage::Floats(const StateSpec& spec, int64_t computed) {
  if (computed == 0) return 0;
  const int64_t rows = spec.growing() ? computed - FirstRow(spec, computed) : 0;
  return spec.fixed_elements() + rows * spec.row_elements();
}

absl::Status StateImage::Read(const StateSpec& spec, StateMemory& memory,
                              const SavedState& whole, std::span<float> image) {
  return Transfer(spec, memory, whole, image, Way::kOut);
}

absl::Status StateImage::Write(const StateSpec& spec, StateMemory& memory,
                               std::span<const float> image, SavedState& made) {
  return Transfer(spec, memory, made, {const_cast<float*>(image.data()), image.size()},
                  Way::kIn);
}

absl::Status StateImage::Transfer(const StateSpec& spec, StateMemory& memory,
                                  const SavedState& state, std::span<float> image,
                                  Way way) try {
  const int64_t computed = state.position();
  MNEMON_CHECK(static_cast<int64_t>(image.size()) == Floats(spec, computed));
  if (computed == 0) return absl::OkStatus();
  const int64_t first = FirstRow(spec, computed);
  std::vector<StateMemory::HostCopy> copies;
  const auto transfer = [&] {
    const absl::Status status =
        way == Way::kOut ? memory.CopyOut(copies) : memory.CopyIn(copies);
    copies.clear();
    return status;
  };
  std::vector<GrowingEntry> growing;
  int64_t at = 0;
  for (size_t e = 0; e < spec.entries.size(); ++e) {
    const StateEntry& entry = spec.entries[e];
    const int64_t elements = entry.elements();
    if (entry.growth == Growth::kFixed) {
      copies.push_back({.block = state.fixed_.block_->floats + spec.offset(e),
                        .host = image.data() + at,
                        .count = elements});
      at += elements;
    } else {
      growing.push_back({.in_block = spec.offset(e),
                         .in_image = at,
                         .elements = elements,
                         .run = RunOf(entry)});
      at += (computed - first) * elements;
    }
  }
  MNEMON_RETURN_IF_ERROR(transfer());
  if (growing.empty()) return absl::OkStatus();

  const int64_t floats = spec.row_elements() * kBlockPositions;
  const int64_t begin = first / kBlockPositions - state.first_block_;
  const int64_t end = state.blocks();
  UnsetFloats staged(static_cast<size_t>(std::min(kTogether, end - begin) * floats));
  const auto for_each_run = [&](int64_t block, int64_t staged_at, const auto& copy) {
    const int64_t start = (state.first_block_ + block) * kBlockPositions;
    const int64_t from = std::max(start, first);
    const int64_t to = std::min(start + kBlockPositions, computed);
    for (const GrowingEntry& entry : growing) {
      for (int64_t position = from; position < to; ++position) {
        entry.ForEachRun(position - start, position - first,
                         [&](int64_t in_block, int64_t in_image, int64_t count) {
                           copy(staged.data() + staged_at + in_block,
                                image.data() + in_image, count);
                         });
      }
    }
  };
  for (int64_t group = begin; group < end; group += kTogether) {
    const int64_t count = std::min(kTogether, end - group);
    for (int64_t i = 0; i < count; ++i) {
      copies.push_back({.block = (*state.list_)[group + i]->floats,
                        .host = staged.data() + i * floats,
                        .count = floats});
    }
    if (way == Way::kOut) {
      MNEMON_RETURN_IF_ERROR(transfer());
      for (int64_t i = 0; i < count; ++i) {
        for_each_run(group + i, i * floats,
                     [](const float* block, float* host, int64_t run) {
                       std::copy_n(block, run, host);
                     });
      }
    } else {
      // Rows outside the image stay zero, as in a new block.
      std::fill_n(staged.data(), count * floats, 0.0f);
      for (int64_t i = 0; i < count; ++i) {
        for_each_run(group + i, i * floats,
                     [](float* block, const float* host, int64_t run) {
                       std::copy_n(host, run, block);
                     });
      }
      MNEMON_RETURN_IF_ERROR(transfer());
    }
  }
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError("the image of a state");
}

}  // namespace mnemon
