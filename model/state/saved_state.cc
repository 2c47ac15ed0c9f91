// SPDX-License-Identifier: MIT
#include "model/state/saved_state.h"

#include <utility>

#include "base/check.h"

namespace mnemon {

SavedFixed::SavedFixed(SavedFixed&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)) {}

SavedFixed& SavedFixed::operator=(SavedFixed&& other) noexcept {
  MNEMON_CHECK(empty());
  block_ = std::exchange(other.block_, nullptr);
  return *this;
}

SavedState::SavedState(SavedState&& other) noexcept
    : position_(std::exchange(other.position_, -1)),
      first_block_(other.first_block_),
      start_(other.start_),
      whole_(other.whole_),
      fixed_(std::move(other.fixed_)),
      list_(std::move(other.list_)) {}

SavedState& SavedState::operator=(SavedState&& other) noexcept {
  MNEMON_CHECK(empty());
  position_ = std::exchange(other.position_, -1);
  first_block_ = other.first_block_;
  start_ = other.start_;
  whole_ = other.whole_;
  fixed_ = std::move(other.fixed_);
  list_ = std::move(other.list_);
  return *this;
}

}  // namespace mnemon
