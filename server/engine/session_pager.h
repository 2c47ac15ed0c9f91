// SPDX-License-Identifier: MIT
// One page of sessions out of many that are looked at one after the other.
#pragma once

#include <vector>

#include "server/engine/request.h"
#include "server/engine/session_order.h"
#include "server/engine/session_query.h"

namespace mnemon {

// Keeps one session more than a page has, whatever it is given. Not safe for concurrent
// use. `query` outlives it.
class SessionPager {
 public:
  explicit SessionPager(const SessionQuery& query) : query_(query) {}

  // Takes the session if it belongs to the page. REQUIRES: each session once; for a
  // query by name by ascending ids.
  void Add(SessionFacts facts);
  // No further session can change the page.
  bool complete() const { return query_.by_name() && entries_.size() > most(); }
  // Leaves nothing behind.
  SessionPage Take();

 private:
  struct Entry {
    SessionOrder::Place place;
    SessionFacts facts;
  };
  size_t most() const { return query_.page_size(); }

  const SessionQuery& query_;
  // By name in their order, else a heap with the last of them on top.
  std::vector<Entry> entries_;
};

}  // namespace mnemon
