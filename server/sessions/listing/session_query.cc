// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_query.h"

#include <algorithm>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/sessions/listing/session_page_token.h"

namespace mnemon {

absl::StatusOr<SessionQuery> SessionQuery::Parse(const ListSessionsRequest& request) {
  const int32_t size = request.page_size;
  if (size < 0) {
    return InvalidField("page_size",
                        StrCat("page_size must not be negative, got ", size));
  }
  SessionQuery query;
  query.page_size_ = std::min(size == 0 ? kPageSize : size, kMaxPageSize);
  MNEMON_ASSIGN_OR_RETURN(query.filter_, SessionFilter::Parse(request.filter));
  MNEMON_ASSIGN_OR_RETURN(query.order_, SessionOrder::Parse(request.order_by));
  query.filter_text_ = request.filter;
  if (!request.page_token.empty()) {
    MNEMON_ASSIGN_OR_RETURN(
        query.after_, ParsePageToken(request.page_token, request.filter, query.order_));
  }
  return query;
}

bool SessionQuery::IsAfterPage(const SessionOrder::Place& place) const {
  return after_.id.empty() || (place.id != after_.id && order_.Before(after_, place));
}

std::string SessionQuery::TokenAfter(const SessionOrder::Place& last) const {
  return PageToken(last, filter_text_, order_);
}

}  // namespace mnemon
