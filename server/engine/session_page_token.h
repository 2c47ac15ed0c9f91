// SPDX-License-Identifier: MIT
// Page tokens of lists of sessions: the place of the last entry of a page as text that
// callers hand back.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/session_order.h"

namespace mnemon {

// Letters, digits, '-' and '_'. It carries a checksum, and a hash of `filter` and
// `order`, for which alone it is good. REQUIRES: texts of `place` are of at most 1 KiB.
std::string PageToken(const SessionOrder::Place& place, std::string_view filter,
                      const SessionOrder& order);

// The reverse. INVALID_ARGUMENT on the field "page_token" for all else, and for a token
// of another filter or order, as the message then says. A text that was forged to pass
// the checksum gives a place too, where the list then goes on.
absl::StatusOr<SessionOrder::Place> ParsePageToken(std::string_view token,
                                                   std::string_view filter,
                                                   const SessionOrder& order);

}  // namespace mnemon
