// SPDX-License-Identifier: MIT
// Images of whole states: the numbers of a state in canonical form, whatever blocks,
// layouts and memory it lies in. Two states are the same when their images are the same
// bytes.
//
// Layout: for each entry of the spec, in its order, a fixed one's elements, a growing
// one's rows that queries at positions from `computed` on can see, [rows][elements].
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
  // The position of the first row in the image of a state after `computed` tokens.
  static int64_t FirstRow(const StateSpec& spec, int64_t computed);
  // Floats of the image; 0 for a fresh state. REQUIRES: computed <= max_positions().
  static int64_t Floats(const StateSpec& spec, int64_t computed);

  // On any thread, while the arena's owner does not drop the state: several threads may
  // read one state at once, one may write one that MakeWhole made. `memory`: the
  // arena's. DEVICE_LOST; RESOURCE_EXHAUSTED without memory for copies of some blocks.
  // REQUIRES: image.size() == Floats(spec, whole.position()).
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
