// SPDX-License-Identifier: MIT
#include "model/state/state.h"

#include <algorithm>

#include "base/sha256.h"
#include "base/strings.h"
#include "model/compute/kernels.h"

namespace mnemon {
namespace {

std::string_view LayoutName(BlockLayout layout) {
  constexpr std::string_view kNames[] = {"", " columns", " head rows"};
  return kNames[static_cast<size_t>(layout)];
}

// A session of more than 2^42 floats is an error; products stay far from overflow.
constexpr int64_t kMaxStateElements = int64_t{1} << 42;

absl::Status Fault(const StateEntry& entry, std::string_view what) {
  return absl::InvalidArgumentError(StrCat("state ", entry.name, ": ", what));
}

}  // namespace

int64_t StateEntry::elements() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

absl::Status StateSpec::Validate() const {
  int64_t total = 0;
  const StateEntry* first_growing = nullptr;
  for (const StateEntry& entry : entries) {
    int64_t elements = 1;
    for (int64_t size : entry.shape) {
      if (size < 1) return Fault(entry, "sizes must be positive");
      if (elements > kMaxStateElements / size) return Fault(entry, "too large");
      elements *= size;
    }
    if (entry.growth == Growth::kFixed) {
      if (entry.capacity != 0) return Fault(entry, "a fixed entry has no capacity");
    } else {
      if (entry.capacity < 1) return Fault(entry, "capacity must be positive");
      if (elements > kMaxStateElements / entry.capacity)
        return Fault(entry, "too large");
      elements *= entry.capacity;
      if (!first_growing) first_growing = &entry;
      if (entry.growth != first_growing->growth ||
          entry.capacity != first_growing->capacity) {
        return Fault(entry, "growing entries must share growth and capacity");
      }
    }
    total += elements;
    if (total > kMaxStateElements) return Fault(entry, "too large");
  }
  return absl::OkStatus();
}

bool StateSpec::growing() const { return growth() != Growth::kFixed; }

Growth StateSpec::growth() const {
  for (const StateEntry& entry : entries) {
    if (entry.growth != Growth::kFixed) return entry.growth;
  }
  return Growth::kFixed;
}

int64_t StateSpec::capacity() const {
  for (const StateEntry& entry : entries) {
    if (entry.growth != Growth::kFixed) return entry.capacity;
  }
  return 0;
}

int64_t StateSpec::fixed_elements() const {
  int64_t sum = 0;
  for (const StateEntry& entry : entries) {
    if (entry.growth == Growth::kFixed) sum += entry.elements();
  }
  return sum;
}

int64_t StateSpec::row_elements() const {
  int64_t sum = 0;
  for (const StateEntry& entry : entries) {
    if (entry.growth != Growth::kFixed) sum += entry.elements();
  }
  return sum;
}

int64_t StateSpec::offset(size_t entry) const {
  const bool fixed = entries[entry].growth == Growth::kFixed;
  int64_t before = 0;
  for (size_t e = 0; e < entry; ++e) {
    if ((entries[e].growth == Growth::kFixed) == fixed) before += entries[e].elements();
  }
  return fixed ? before : before * kBlockPositions;
}

int64_t StateSpec::max_positions() const {
  return growth() == Growth::kAppend ? std::min(limit, capacity()) : limit;
}

int64_t StateSpec::bytes_at(int64_t positions) const {
  int64_t rows = 0;
  if (growing()) {
    const int64_t most =
        growth() == Growth::kRing ? capacity() + kBlockPositions - 1 : capacity();
    rows = std::min(positions, most);
    rows = (rows + kBlockPositions - 1) / kBlockPositions * kBlockPositions;
  }
  return static_cast<int64_t>(sizeof(float)) *
         (fixed_elements() + rows * row_elements());
}

std::string StateSpec::Hash() const {
  std::string text;
  for (const StateEntry& entry : entries) {
    text +=
        StrCat(entry.name.size(), ":", entry.name, " f32 ", Name(entry.growth), " ",
               entry.capacity, LayoutName(entry.layout), " fill ", entry.fill, " [");
    for (int64_t size : entry.shape) text += StrCat(size, ",");
    text += "]\n";
  }
  if (limit != kUnlimited) text += StrCat("limit ", limit, "\n");
  return Sha256Hex(text);
}

std::string_view Name(Growth value) {
  constexpr std::string_view kNames[] = {"fixed", "ring", "append"};
  return kNames[static_cast<size_t>(value)];
}

}  // namespace mnemon
