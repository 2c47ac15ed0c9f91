// SPDX-License-Identifier: MIT
// A query for a page of sessions: filter, order, start and size. Constant after Parse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/sessions/listing/session_filter.h"
#include "server/sessions/listing/session_order.h"

namespace mnemon {

class SessionQuery {
 public:
  static constexpr int32_t kPageSize = 100;
  static constexpr int32_t kMaxPageSize = 1000;

  // INVALID_ARGUMENT for "filter", "order_by", "page_token" or "page_size". A page size
  // of 0 is kPageSize; it is lowered to kMaxPageSize.
  static absl::StatusOr<SessionQuery> Parse(const ListSessionsRequest& request);

  bool Matches(const SessionFacts& facts) const { return filter_.Matches(facts); }
  const SessionFilter::IdRange& ids() const { return filter_.ids(); }
  SessionOrder::Place PlaceOf(const SessionFacts& facts) const {
    return order_.PlaceOf(facts);
  }
  bool Before(const SessionOrder::Place& a, const SessionOrder::Place& b) const {
    return order_.Before(a, b);
  }
  // Whether `place` comes after the page of the token. The last session of that page
  // does not, wherever it has moved since.
  bool IsAfterPage(const SessionOrder::Place& place) const;

  // Whether the order is that of ids. Then a walk by id can begin after after_id(),
  // which is empty for the first page, and end with the page.
  bool by_name() const { return order_.keys().empty(); }
  const std::string& after_id() const { return after_.id; }
  size_t page_size() const { return page_size_; }
  // The token of the page after one whose last entry is at `last`.
  std::string TokenAfter(const SessionOrder::Place& last) const;

 private:
  SessionFilter filter_;
  SessionOrder order_;
  SessionOrder::Place after_;  // without an id for the first page
  std::string filter_text_;
  size_t page_size_ = kPageSize;
};

}  // namespace mnemon
