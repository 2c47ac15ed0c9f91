// SPDX-License-Identifier: MIT
// Table of the session fields that filters and orders can name, as in the message
// mnemon.v1.Session.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

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

std::span<const SessionField> SessionFields();

// Null: there is no such field.
const SessionField* FindSessionField(std::string_view name);

// An error message: there is no field `name`, and which fields there are.
std::string UnknownSessionField(std::string_view name);

}  // namespace mnemon
