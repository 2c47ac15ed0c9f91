// SPDX-License-Identifier: MIT
// Page tokens of session lists: the place of the last entry of a page, as text that the
// caller passes back.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/sessions/listing/session_order.h"

namespace mnemon {

// Letters, digits, '-' and '_'. The token has a checksum and is valid only with the
// same `filter` and `order`. REQUIRES: strings of `place` have at most 1 KiB.
std::string PageToken(const SessionOrder::Place& place, std::string_view filter,
                      const SessionOrder& order);

// The inverse. INVALID_ARGUMENT for the field "page_token" for any other text, and for
// a token of another filter or order, which the message says. A forged token with a
// valid checksum gives a place, too, and the list goes on from there.
absl::StatusOr<SessionOrder::Place> ParsePageToken(std::string_view token,
                                                   std::string_view filter,
                                                   const SessionOrder& order);

}  // namespace mnemon
