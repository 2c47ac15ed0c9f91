// SPDX-License-Identifier: MIT
// Images of whole states: the numbers of a state in canonical form, independent of its
// blocks, layouts and memory. States are equal if their images have the same bytes.
//
// Layout: for each entry of the spec in order, a fixed entry's elements, or the rows of
// a growing entry that queries at positions from `computed` on can see,
// [rows][elements].
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "model/state/saved_state.h"
#include "model/state/state.h"
#include "model/state/state_memory.h"

namespace mnemon {

class StateImage {
 public:
  // Position of the first row in the image of a state after `computed` tokens.
  static int64_t FirstRow(const StateSpec& spec, int64_t computed);
  // Floats of the image; 0 for a fresh state. REQUIRES: computed <= max_positions().
  static int64_t Floats(const StateSpec& spec, int64_t computed);

  // Called on any thread, while the arena's owner must not drop the state. Several
  // threads may read one state at once; one thread may write a state from MakeWhole.
  // `memory`: the arena's. DEVICE_LOST; RESOURCE_EXHAUSTED without memory for copies of
  // some blocks. REQUIRES: image.size() == Floats(spec, whole.position()).
  static absl::Status Read(const StateSpec& spec, StateMemory& memory,
                           const SavedState& whole, std::span<float> image);
  static absl::Status Write(const StateSpec& spec, StateMemory& memory,
                            std::span<const float> image, SavedState& made);

 private:
  enum class Way { kOut, kIn };
  static absl::Status Transfer(const StateSpec& spec, StateMemory& memory,
                               const SavedState& state, std::span<float> image,
                               Way way);
};

}  // namespace mnemon
