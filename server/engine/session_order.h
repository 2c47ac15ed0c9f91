// SPDX-License-Identifier: MIT
// A total order of sessions, as AIP-132 writes it: "last_use_time desc, name".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/request.h"
#include "server/engine/session_field.h"

namespace mnemon {

class SessionOrder {
 public:
  static constexpr size_t kMaxBytes = 1024;
  static constexpr size_t kMaxFields = 4;

  // Fields of session_field.h, each with "asc", which is the default, or "desc" behind
  // it; empty: by name. Sessions with equal fields come by name. An absent time comes
  // after all others, enumerations in the order of their numbers. INVALID_ARGUMENT on
  // the field "order_by".
  static absl::StatusOr<SessionOrder> Parse(std::string_view text);

  // The place of a session: the values of fields(), then its id.
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
  // Empty: by name alone. What could not decide any more is left out.
  std::span<const Key> keys() const { return keys_; }
  // The same for texts that mean the same.
  std::string text() const;

 private:
  std::vector<Key> keys_;
};

}  // namespace mnemon
