// SPDX-License-Identifier: MIT
// A total order of sessions in the notation of AIP-132: "last_use_time desc, name".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/sessions/listing/session_field.h"

namespace mnemon {

class SessionOrder {
 public:
  static constexpr size_t kMaxBytes = 1024;
  static constexpr size_t kMaxFields = 4;

  // Fields of session_field.h, each followed by "asc" (the default) or "desc"; empty:
  // by name. Sessions with equal fields are ordered by name, absent times come last,
  // and enumerations follow their numbers. INVALID_ARGUMENT for the field "order_by".
  static absl::StatusOr<SessionOrder> Parse(std::string_view text);

  // The place of a session: the values of the keys, then its id.
  struct Place {
    std::vector<FieldValue> values;
    std::string id;
  };
  Place PlaceOf(const SessionFacts& facts) const;
  // Whether `a` comes before `b`. REQUIRES: places of this order.
  bool Before(const Place& a, const Place& b) const;

  struct Key {
    const SessionField* field;
    bool descending;
  };
  // Empty: by name only. Keys without influence are left out.
  std::span<const Key> keys() const { return keys_; }
  // The normalized text: equal for equal orders.
  std::string text() const;

 private:
  std::vector<Key> keys_;
};

}  // namespace mnemon
