// SPDX-License-Identifier: MIT
// Where each weight lies in one flat buffer of all weights, or of their gradients.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"

namespace mnemon {

class FlatLayout {
 public:
  void Add(std::string name, int64_t begin) { begins_.emplace(std::move(name), begin); }

  bool Has(const std::string& name) const { return begins_.contains(name); }
  // REQUIRES: Has(name).
  int64_t At(const std::string& name) const {
    const auto found = begins_.find(name);
    MNEMON_CHECK(found != begins_.end());
    return found->second;
  }
  // -1: there is none of this name.
  int64_t Find(const std::string& name) const { return Has(name) ? At(name) : -1; }

 private:
  std::map<std::string, int64_t> begins_;
};

}  // namespace mnemon
