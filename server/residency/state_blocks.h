// SPDX-License-Identifier: MIT
// Blocks of an arena that one state has and needs.
#pragma once

#include <cstdint>

#include "model/state/arena.h"
#include "server/residency/resident_state.h"

namespace mnemon {

// Growing blocks that the state holds.
int64_t BlocksHeld(const StateArena& arena, const ResidentState& state);
// Blocks that so many tokens more take at most. REQUIRES: the state has a slot.
int64_t BlocksFor(const StateArena& arena, const ResidentState& state, int64_t tokens);
// Blocks that the state may take without asking, beside those that it has.
int64_t BlocksPromised(const StateArena& arena, const ResidentState& state);
// Whether the next token that is computed needs a copy of the last block. REQUIRES: the
// state has a slot.
bool CopiesLastBlock(const StateArena& arena, const ResidentState& state);

}  // namespace mnemon
