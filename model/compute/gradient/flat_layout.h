// SPDX-License-Identifier: MIT
// Offsets of all weights in one flat buffer of weights or of gradients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"

namespace mnemon {

class FlatLayout {
 public:
  // Adds a weight of `count` numbers from offset `begin` on.
  void Add(std::string name, int64_t begin, int64_t count) {
    begins_.emplace(std::move(name), begin);
    size_ = std::max(size_, begin + count);
  }

  bool Has(const std::string& name) const { return begins_.contains(name); }
  // REQUIRES: Has(name).
  int64_t At(const std::string& name) const {
    const auto found = begins_.find(name);
    MNEMON_CHECK(found != begins_.end());
    return found->second;
  }
  // Size of the buffer: the end of the last weight, rounded up to a cache line of
  // floats.
  int64_t size() const { return (size_ + 15) / 16 * 16; }
  // Offset, or -1 if there is no such weight.
  int64_t Find(const std::string& name) const { return Has(name) ? At(name) : -1; }

 private:
  int64_t size_ = 0;
  std::map<std::string, int64_t> begins_;
};

}  // namespace mnemon
