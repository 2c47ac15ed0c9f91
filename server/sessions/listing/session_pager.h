// SPDX-License-Identifier: MIT
// Selects one page from a sequence of sessions.
#pragma once

#include <vector>

#include "server/requests/request.h"
#include "server/sessions/listing/session_order.h"
#include "server/sessions/listing/session_query.h"

namespace mnemon {

// Keeps at most one session more than a page has. Not safe for concurrent use. `query`
// outlives it.
class SessionPager {
 public:
  explicit SessionPager(const SessionQuery& query) : query_(query) {}

  // Adds the session if it belongs to the page. REQUIRES: each session is given once;
  // for a query by name, in the order of ids.
  void Add(SessionFacts facts);
  // Whether no further session can change the page.
  bool complete() const { return query_.by_name() && entries_.size() > most(); }
  // Returns the page. The pager is then empty.
  SessionPage Take();

 private:
  struct Entry {
    SessionOrder::Place place;
    SessionFacts facts;
  };
  size_t most() const { return query_.page_size(); }

  const SessionQuery& query_;
  // For a query by name in order, else a heap with the last one on top.
  std::vector<Entry> entries_;
};

}  // namespace mnemon
