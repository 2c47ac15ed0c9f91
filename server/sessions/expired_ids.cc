// SPDX-License-Identifier: MIT
#include "server/sessions/expired_ids.h"

#include <cstdint>
#include <iterator>
#include <new>

#include "base/memory/heap_bytes.h"

namespace mnemon {
namespace {

// With its nodes in list and map.
int64_t BytesOf(const std::string& id) {
  return HeapBytes(2 * sizeof(void*) + sizeof(id)) + TextHeapBytes(id) +
         HeapBytes(5 * sizeof(void*)) + static_cast<int64_t>(sizeof(void*));
}

}  // namespace

void ExpiredIds::Remember(const std::string& id) try {
  Forget(id);
  order_.push_back(id);
  try {
    places_.emplace(order_.back(), std::prev(order_.end()));
  } catch (const std::bad_alloc&) {
    order_.pop_back();
    throw;
  }
  charge_.Set(charge_.bytes() + BytesOf(order_.back()));
  if (order_.size() > kMost) Forget(order_.front());
} catch (const std::bad_alloc&) {
  // That id is answered as one that never was.
}

void ExpiredIds::Forget(const std::string& id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  const auto place = found->second;
  places_.erase(found);  // its key is the text of the place
  charge_.Set(charge_.bytes() - BytesOf(*place));
  order_.erase(place);
}

}  // namespace mnemon
