// SPDX-License-Identifier: MIT
// A condition on sessions in the language of AIP-160.
//
//   filter     = [ expression ]
//   expression = factor { [ "AND" ] factor }
//   factor     = term { "OR" term }
//   term       = [ "NOT" | "-" ] ( comparison | "(" expression ")" )
//   comparison = field operator value
//
// OR binds tighter than AND, which may be left out: `a b OR c` is `a AND (b OR c)`.
// Keywords are in capitals. Operators by the type of the field:
//   text         = != < <= > >= (by bytes) and ':', which is '='. With = != : a '*' at
//                the end of the value matches any text. An id may have the prefix
//                "sessions/" (name, parent) or "models/" (model).
//   integer      = != < <= > >=
//   time         the same, with a quoted RFC 3339 value
//   enumeration  = != : with the name of a value; also for true and false
// `field:*` is true for a text that is not empty and for a time that is present. Any
// comparison with an absent time is false, also !=.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/sessions/listing/session_field.h"

namespace mnemon {

class SessionFilter {
 public:
  static constexpr size_t kMaxBytes = 4096;
  static constexpr size_t kMaxComparisons = 64;
  static constexpr int kMaxNesting = 32;  // of parentheses

  // An empty text matches all sessions. FilterError (filter_words.h) for a malformed
  // text or one beyond a limit.
  static absl::StatusOr<SessionFilter> Parse(std::string_view text);

  bool Matches(const SessionFacts& facts) const;

  // A range of ids, ordered by bytes.
  struct IdRange {
    std::string begin;
    std::optional<std::string> end;  // the first id after the range; absent: none

    bool operator==(const IdRange&) const = default;
  };
  // Contains the ids of all sessions that match. Narrowed by comparisons of names that
  // are not negated.
  const IdRange& ids() const { return ids_; }

 private:
  friend class FilterParser;

  enum class Relation {
    kEqual,
    kNotEqual,
    kLess,
    kLessOrEqual,
    kGreater,
    kGreaterOrEqual,
    kBegins,     // text with a '*'
    kNotBegins,  // likewise
    kPresent,
  };
  struct Comparison {
    const SessionField* field;
    Relation relation;
    FieldValue value;
  };
  enum class Step : uint8_t { kCompare, kNot, kAnd, kOr };

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
