// SPDX-License-Identifier: MIT
// The fields of a session that filters and orders name, as in the message
// mnemon.v1.Session: one table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/rfc3339.h"
#include "server/engine/request.h"

namespace mnemon {

// A field without a value; comes after all values.
struct Absent {
  auto operator<=>(const Absent&) const = default;
};
// A number is an integer, an index among SessionField::values, or 0 and 1 for false and
// true. Values of one field have one type, or are absent.
using FieldValue = std::variant<int64_t, Instant, std::string, Absent>;

struct SessionField {
  enum class Type { kText, kInteger, kTime, kEnumeration, kTruth };

  std::string_view name;
  Type type;
  FieldValue (*value)(const SessionFacts& facts);
  // For a resource name: "sessions/" or "models/", which the value lacks.
  std::string_view collection = {};
  // Names of an enumeration in its order, and of truth values.
  std::span<const std::string_view> values = {};
};

std::span<const SessionField> SessionFields();

// Null for a name of no field.
const SessionField* FindSessionField(std::string_view name);

// For messages: says that there is no field `name`, and which there are.
std::string UnknownSessionField(std::string_view name);

}  // namespace mnemon
