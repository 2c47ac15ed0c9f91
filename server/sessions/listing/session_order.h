// SPDX-License-Identifier: MIT
// The fields of sessions that filters and orders can name, as in mnemon.v1.Session, and
// total orders in the notation of AIP-132: "last_use_time desc, name".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/rfc3339.h"
#include "server/requests/request.h"

namespace mnemon {

// A field without a value. It sorts after all values.
struct Absent {
  auto operator<=>(const Absent&) const = default;
};
// int64_t: an integer, an index into SessionField::values, or 0 and 1 for false and
// true. All values of a field have the same type, or are absent.
using FieldValue = std::variant<int64_t, Instant, std::string, Absent>;

struct SessionField {
  enum class Type { kText, kInteger, kTime, kEnumeration, kTruth };

  std::string_view name;
  Type type;
  FieldValue (*value)(const SessionFacts& facts);
  // For a resource name: "sessions/" or "models/", which is not part of the value.
  std::string_view collection = {};
  // Names of the values of an enumeration, in its order, or of truth values.
  std::span<const std::string_view> values = {};
};

// Null: there is no such field.
const SessionField* FindSessionField(std::string_view name);

// An error message: there is no field `name`, and which fields there are.
std::string UnknownSessionField(std::string_view name);

class SessionOrder {
 public:
  static constexpr size_t kMaxBytes = 1024;
  static constexpr size_t kMaxFields = 4;

  // Names of fields, each followed by "asc" (the default) or "desc"; empty:
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
