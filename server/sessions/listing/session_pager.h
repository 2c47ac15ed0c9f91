// SPDX-License-Identifier: MIT
// Pages of a list of sessions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/sessions/listing/session_filter.h"
#include "server/sessions/listing/session_order.h"

namespace mnemon {

// Selects one page. Keeps at most one session more than a page has. Not safe for
// concurrent use.
class SessionPager {
 public:
  static constexpr int32_t kPageSize = 100;
  static constexpr int32_t kMaxPageSize = 1000;

  // INVALID_ARGUMENT for "filter", "order_by", "page_token" or "page_size". A page size
  // of 0 is kPageSize; it is lowered to kMaxPageSize.
  static absl::StatusOr<SessionPager> Parse(const ListSessionsRequest& request);

  // Contains the ids of all sessions of the page.
  const SessionFilter::IdRange& ids() const { return ids_; }
  size_t page_size() const { return page_size_; }

  // Adds the session if it belongs to the page: it matches, and comes after the last
  // session of the page before, which does not, wherever it has moved since. REQUIRES:
  // each session is given once, and in the order of ids.
  void Add(SessionFacts facts);
  // Whether no further session can change the page.
  bool complete() const { return by_name() && entries_.size() > page_size_; }
  // Returns the page. The pager is then empty.
  SessionPage Take();

 private:
  struct Entry {
    SessionOrder::Place place;
    SessionFacts facts;
  };
  // Whether the order is that of ids.
  bool by_name() const { return order_.keys().empty(); }
  auto Before() const {
    return [this](const Entry& a, const Entry& b) {
      return order_.Before(a.place, b.place);
    };
  }

  SessionFilter filter_;
  SessionFilter::IdRange ids_;
  SessionOrder order_;
  SessionOrder::Place after_;  // without an id for the first page
  std::string filter_text_;
  size_t page_size_ = kPageSize;
  // For an order by name in order, else a heap with the last one on top.
  std::vector<Entry> entries_;
};

// A page token: the place of the last entry of a page, as letters, digits, '-' and '_'.
// It has a checksum and is valid only with the same `filter` and `order`. REQUIRES:
// strings of `place` have at most 1 KiB.
std::string PageToken(const SessionOrder::Place& place, std::string_view filter,
                      const SessionOrder& order);

// The inverse. INVALID_ARGUMENT for the field "page_token": another text, or a token of
// another filter or order. A forged token with a valid checksum gives a place, too.
absl::StatusOr<SessionOrder::Place> ParsePageToken(std::string_view token,
                                                   std::string_view filter,
                                                   const SessionOrder& order);

}  // namespace mnemon
