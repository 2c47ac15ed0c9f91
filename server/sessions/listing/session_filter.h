// SPDX-License-Identifier: MIT
// A condition on sessions in the language of AIP-160.
//
//   filter     = [ expression ]
//   expression = factor { [ "AND" ] factor }
//   factor     = term { "OR" term }
//   term       = [ "NOT" | "-" ] ( comparison | "(" expression ")" )
//   comparison = field operator value
//
// ListSessionsRequest.filter in proto/mnemon/v1/sessions.proto says what operators and
// values each field takes. Keywords are in capitals. OR binds tighter than AND, which
// may be left out. Quotes are " or '; within them a backslash escapes a quote or a
// backslash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/sessions/listing/session_order.h"

namespace mnemon {

class SessionFilter {
 public:
  static constexpr size_t kMaxBytes = 4096;
  static constexpr size_t kMaxComparisons = 64;
  static constexpr int kMaxNesting = 32;  // of parentheses

  // An empty text matches all sessions. INVALID_ARGUMENT for the field "filter": a
  // malformed text, or one beyond a limit. The position, from 1, is in the message and
  // in the metadata "position".
  static absl::StatusOr<SessionFilter> Parse(std::string_view text);

  bool Matches(const SessionFacts& facts) const;

  struct IdRange {
    std::string begin;
    std::optional<std::string> end;  // not in the range; absent: it has no end

    bool operator==(const IdRange&) const = default;
  };
  // Contains the ids of all sessions that match, ordered by bytes.
  const IdRange& ids() const { return ids_; }

 private:
  friend class FilterParser;

  // Up to 7: the sum of the orders of field and value for which it is true.
  enum class Relation {
    kLess = 1,
    kEqual = 2,
    kLessOrEqual = 3,
    kGreater = 4,
    kNotEqual = 5,
    kGreaterOrEqual = 6,
    kBegins = 8,  // text with a '*'
    kNotBegins,   // likewise
    kPresent,
  };
  struct Comparison {
    const SessionField* field;
    Relation relation;
    FieldValue value;
  };
  enum class Step : uint8_t { kCompare, kNot, kAnd, kOr };

  static bool Includes(Relation relation, Relation order) {
    return (static_cast<int>(relation) & static_cast<int>(order)) != 0;
  }
  static bool Holds(const Comparison& comparison, const SessionFacts& facts);
  static IdRange IdsOf(const Comparison& comparison);
  IdRange FindIds() const;

  // The expression in postfix order; each kCompare is the next one of comparisons_.
  // Empty: true.
  std::vector<Step> steps_;
  std::vector<Comparison> comparisons_;
  IdRange ids_;  // FindIds
};

}  // namespace mnemon
