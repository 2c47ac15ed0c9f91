// SPDX-License-Identifier: MIT
#include "server/sessions/listing/filter_words.h"

#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using Kind = FilterWord::Kind;

constexpr std::string_view kWhiteSpace = " \t\n\r";
constexpr std::string_view kQuotes = "\"'";

bool IsOneOf(char c, std::string_view any) { return any.find(c) != any.npos; }
bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool IsBare(char c) { return !IsControl(c) && !IsOneOf(c, " ()=<>!:\"'"); }

// The quoted text that begins at `at`, which moves behind it.
absl::StatusOr<std::string> Unquote(std::string_view filter, size_t& at) {
  const size_t begin = at++;
  std::string text;
  for (; at < filter.size() && filter[at] != filter[begin]; ++at) {
    if (filter[at] == '\\') {
      ++at;
      if (at == filter.size() || !IsOneOf(filter[at], "\"'\\")) {
        return FilterError(
            at, "a backslash in quotes stands before a quote or a backslash only");
      }
    }
    text += filter[at];
  }
  if (at == filter.size()) return FilterError(begin + 1, "this quote does not end");
  ++at;
  return text;
}

}  // namespace

absl::Status FilterError(size_t position, std::string_view fault) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("filter, position ", position, ": ", fault),
                   {.reason = "INVALID_VALUE",
                    .field = "filter",
                    .metadata = {{"position", StrCat(position)}}});
}

absl::StatusOr<std::vector<FilterWord>> CutFilter(std::string_view filter) {
  std::vector<FilterWord> words;
  size_t at = 0;
  const auto add = [&](Kind kind, size_t end) {
    words.push_back({kind, std::string(filter.substr(at, end - at)), at + 1});
    at = end;
  };
  while (at < filter.size()) {
    const char c = filter[at];
    if (IsOneOf(c, kWhiteSpace)) {
      ++at;
    } else if (c == '(') {
      add(Kind::kOpen, at + 1);
    } else if (c == ')') {
      add(Kind::kClose, at + 1);
    } else if (IsOneOf(c, kQuotes)) {
      const size_t position = at + 1;
      MNEMON_ASSIGN_OR_RETURN(std::string text, Unquote(filter, at));
      words.push_back({Kind::kQuoted, std::move(text), position});
    } else if (IsOneOf(c, "=<>!:")) {
      const bool equal = at + 1 < filter.size() && filter[at + 1] == '=';
      if (c == '!' && !equal) return FilterError(at + 1, "'!' stands in '!=' only");
      add(Kind::kOperator, at + (equal && IsOneOf(c, "<>!") ? 2 : 1));
    } else if (IsBare(c)) {
      size_t end = at + 1;
      while (end < filter.size() && IsBare(filter[end])) ++end;
      add(Kind::kBare, end);
    } else {
      return FilterError(at + 1, "a control character outside quotes");
    }
  }
  add(Kind::kEnd, at);
  return words;
}

}  // namespace mnemon
