// SPDX-License-Identifier: MIT
// A question for a page of sessions: which ones, in which order, behind which, how
// many. Pure; constant after Parse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/request.h"
#include "server/engine/session_filter.h"
#include "server/engine/session_order.h"

namespace mnemon {

class SessionQuery {
 public:
  static constexpr int32_t kPageSize = 100;
  static constexpr int32_t kMaxPageSize = 1000;

  // INVALID_ARGUMENT on "filter", "order_by", "page_token" or "page_size". Of
  // ListSessionsRequest::page_size 0 is kPageSize, and more than kMaxPageSize is that.
  static absl::StatusOr<SessionQuery> Parse(const ListSessionsRequest& request);

  bool Matches(const SessionFacts& facts) const { return filter_.Matches(facts); }
  const SessionFilter::IdRange& ids() const { return filter_.ids(); }
  SessionOrder::Place PlaceOf(const SessionFacts& facts) const {
    return order_.PlaceOf(facts);
  }
  bool Before(const SessionOrder::Place& a, const SessionOrder::Place& b) const {
    return order_.Before(a, b);
  }
  // Whether `place` comes after the page that the token ended. A session that was the
  // last one there does not, wherever it has moved since.
  bool IsAfterPage(const SessionOrder::Place& place) const;

  // In the order of ids: then a walk by id finds a page at after_id(), empty for the
  // first one, and may end with it.
  bool by_name() const { return order_.keys().empty(); }
  const std::string& after_id() const { return after_.id; }
  size_t page_size() const { return page_size_; }
  // The token of the page that follows one with the entry at `last` at its end.
  std::string TokenAfter(const SessionOrder::Place& last) const;

 private:
  SessionFilter filter_;
  SessionOrder order_;
  SessionOrder::Place after_;  // without an id for the first page
  std::string filter_text_;
  size_t page_size_ = kPageSize;
};

}  // namespace mnemon
