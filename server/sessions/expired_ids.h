// SPDX-License-Identifier: MIT
// The ids of the sessions that expired most recently.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/memory/byte_budget.h"

namespace mnemon {

// Guarded by its owner's mutex. Operations are O(1).
class ExpiredIds {
 public:
  // `charge` counts their memory.
  explicit ExpiredIds(ByteCharge charge) : charge_(std::move(charge)) {}

  // Replaces the oldest id if there are kMost. No effect when memory has run out.
  void Remember(const std::string& id);
  void Forget(const std::string& id);
  bool Contains(const std::string& id) const { return places_.contains(id); }

  static constexpr size_t kMost = 1024;

 private:
  ByteCharge charge_;
  std::list<std::string> order_;  // newest last
  // Keys are strings of the list.
  std::unordered_map<std::string_view, std::list<std::string>::iterator> places_;
};

}  // namespace mnemon
