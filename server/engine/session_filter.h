// SPDX-License-Identifier: MIT
// A condition on sessions in the language of AIP-160.
//
//   filter     = [ expression ]
//   expression = factor { [ "AND" ] factor }
//   factor     = term { "OR" term }
//   term       = [ "NOT" | "-" ] ( comparison | "(" expression ")" )
//   comparison = field operator value
//
// So OR binds tighter than AND, which may be left out: `a b OR c` is `a AND (b OR c)`.
// Keywords are in capitals. By the type of the field,
//   text         takes = != < <= > >= (by bytes) and ':', which is '='; a '*' at the
//                end of the value of = != : stands for any text. Before an id may stand
//                "sessions/" (name, parent) or "models/" (model).
//   integer      takes = != < <= > >=
//   time         takes the same, with a quoted value of RFC 3339
//   enumeration  takes = != : with a name of a value, true and false likewise
// `field:*` says of a text that it is not empty and of a time that there is one. Any
// comparison with an absent time is false, != too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/request.h"
#include "server/engine/session_field.h"

namespace mnemon {

class SessionFilter {
 public:
  static constexpr size_t kMaxBytes = 4096;
  static constexpr size_t kMaxComparisons = 64;
  static constexpr int kMaxNesting = 32;  // of parentheses

  // An empty text takes all sessions. FilterError (filter_words.h) where the text is
  // wrong or beyond a limit.
  static absl::StatusOr<SessionFilter> Parse(std::string_view text);

  bool Matches(const SessionFacts& facts) const;

  // Ids by their bytes.
  struct IdRange {
    std::string begin;
    std::optional<std::string> end;  // the first one behind; absent: there is none

    bool operator==(const IdRange&) const = default;
  };
  // Has the id of each session that matches, and is as narrow as comparisons of names
  // make it that no NOT stands before.
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

  // The expression, operands before their operator; each kCompare is the next one of
  // comparisons_. Empty: true.
  std::vector<Step> steps_;
  std::vector<Comparison> comparisons_;
  IdRange ids_;  // FindIds
};

}  // namespace mnemon
