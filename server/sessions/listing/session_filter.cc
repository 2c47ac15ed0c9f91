// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {

// A filter is cut into words, quoted texts, operators and parentheses.
struct FilterWord {
  enum class Kind {
    kBare,      // unquoted: a keyword, a field or a value
    kQuoted,    // `text` is the quoted text, escapes resolved
    kOperator,  // = != < <= > >= :
    kOpen,
    kClose,
    kEnd,  // the last one; `text` is empty
  };
  Kind kind = Kind::kEnd;
  std::string text;
  size_t position = 1;  // of its first byte in the filter, from 1
};

namespace {

bool IsOneOf(char c, std::string_view any) { return any.find(c) != any.npos; }
bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool IsBare(char c) { return !IsControl(c) && !IsOneOf(c, " ()=<>!:\"'"); }

absl::Status FilterError(size_t position, std::string_view fault) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("filter, position ", position, ": ", fault),
                   {.reason = "INVALID_VALUE",
                    .field = "filter",
                    .metadata = {{"position", StrCat(position)}}});
}

// The quoted text that begins at `at`, which moves to its end.
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

// The words of `filter`, including the end.
absl::StatusOr<std::vector<FilterWord>> CutFilter(std::string_view filter) {
  using Kind = FilterWord::Kind;
  std::vector<FilterWord> words;
  size_t at = 0;
  const auto add = [&](Kind kind, size_t end) {
    words.push_back({kind, std::string(filter.substr(at, end - at)), at + 1});
    at = end;
  };
  while (at < filter.size()) {
    const char c = filter[at];
    if (IsOneOf(c, " \t\n\r")) {
      ++at;
    } else if (c == '(' || c == ')') {
      add(c == '(' ? Kind::kOpen : Kind::kClose, at + 1);
    } else if (IsOneOf(c, "\"'")) {
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

// The first text after all that begin with `prefix`; absent: there is none.
std::optional<std::string> AfterPrefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) {
    prefix.pop_back();
  }
  if (prefix.empty()) return std::nullopt;
  ++prefix.back();
  return prefix;
}

// Compares ends of ranges; an absent one comes after all.
bool EndsBefore(const std::optional<std::string>& a,
                const std::optional<std::string>& b) {
  return a && (!b || *a < *b);
}

}  // namespace

// Recursive descent, as deep as parentheses may be nested.
class FilterParser {
  using Kind = FilterWord::Kind;
  using Type = SessionField::Type;

 public:
  explicit FilterParser(std::vector<FilterWord> words) : words_(std::move(words)) {}

  absl::StatusOr<SessionFilter> Parse() {
    if (Next().kind == Kind::kEnd) return std::move(filter_);
    MNEMON_RETURN_IF_ERROR(Expression(0));
    if (Next().kind == Kind::kClose) return Error("')' without '('");
    if (Next().kind != Kind::kEnd) return Expected("AND, OR or another comparison");
    filter_.ids_ = filter_.FindIds();
    return std::move(filter_);
  }

 private:
  using Relation = SessionFilter::Relation;
  using Step = SessionFilter::Step;

  absl::Status Expression(int nesting) {
    MNEMON_RETURN_IF_ERROR(Factor(nesting));
    while (true) {
      const FilterWord& next = Next();
      const bool begins_a_term = next.kind == Kind::kOpen || next.kind == Kind::kBare ||
                                 next.kind == Kind::kQuoted;
      if (!Take("AND") && !begins_a_term) return absl::OkStatus();
      MNEMON_RETURN_IF_ERROR(Factor(nesting));
      filter_.steps_.push_back(Step::kAnd);
    }
  }

  absl::Status Factor(int nesting) {
    MNEMON_RETURN_IF_ERROR(Term(nesting));
    while (Take("OR")) {
      MNEMON_RETURN_IF_ERROR(Term(nesting));
      filter_.steps_.push_back(Step::kOr);
    }
    return absl::OkStatus();
  }

  absl::Status Term(int nesting) {
    const bool negated = Take("NOT") || TakeMinus();
    if (Next().kind == Kind::kOpen) {
      MNEMON_RETURN_IF_ERROR(Parenthesis(nesting));
    } else {
      MNEMON_RETURN_IF_ERROR(Comparison());
    }
    if (negated) filter_.steps_.push_back(Step::kNot);
    return absl::OkStatus();
  }

  absl::Status Parenthesis(int nesting) {
    const size_t opened = Next().position;
    if (nesting == SessionFilter::kMaxNesting) {
      return Error(
          StrCat("parentheses may be nested ", SessionFilter::kMaxNesting, " deep"));
    }
    ++at_;
    MNEMON_RETURN_IF_ERROR(Expression(nesting + 1));
    if (Next().kind == Kind::kEnd) return FilterError(opened, "'(' is not closed");
    if (Next().kind != Kind::kClose) return Expected("AND, OR or ')'");
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Comparison() {
    if (Next().kind != Kind::kBare || IsKeyword(Next().text)) {
      return Expected("a comparison such as `state = IDLE`");
    }
    if (filter_.comparisons_.size() == SessionFilter::kMaxComparisons) {
      return Error(StrCat("a filter has at most ", SessionFilter::kMaxComparisons,
                          " comparisons"));
    }
    const std::string& name = Next().text;
    const SessionField* field = FindSessionField(name);
    if (field == nullptr) {
      if (name == "and" || name == "or" || name == "not") {
        return Error("AND, OR and NOT are written in capitals");
      }
      return Error(UnknownSessionField(name));
    }
    ++at_;
    if (Next().kind != Kind::kOperator) {
      return Expected(StrCat("an operator such as = behind ", field->name));
    }
    MNEMON_ASSIGN_OR_RETURN(Relation relation, RelationOf(*field));
    ++at_;
    if (Next().kind != Kind::kBare && Next().kind != Kind::kQuoted) {
      return Expected(StrCat("a value to compare ", field->name, " with"));
    }
    MNEMON_ASSIGN_OR_RETURN(FieldValue value, ValueFor(*field, relation));
    ++at_;
    filter_.comparisons_.push_back({field, relation, std::move(value)});
    filter_.steps_.push_back(Step::kCompare);
    return absl::OkStatus();
  }

  // The relation of the operator that is next; the value after it can still change it.
  absl::StatusOr<Relation> RelationOf(const SessionField& field) const {
    const bool ordered = field.values.empty();
    const bool has = field.type != Type::kInteger;
    const std::string& text = Next().text;
    if ((text == ":" && !has) || (!ordered && (text[0] == '<' || text[0] == '>'))) {
      return Error(StrCat(field.name, " has no operator ", text, ", only ",
                          ordered ? "= != < <= > >=" : "= != :"));
    }
    const FilterWord& value = words_[at_ + 1];
    const bool star = value.kind == Kind::kBare && value.text == "*";
    if (text == ":" && star && ordered) return Relation::kPresent;
    if (text == ":" && field.type == Type::kTime) {
      return Error(StrCat("':' behind the time ", field.name, " takes * only"));
    }
    // In the order of Relation, which begins with 1.
    constexpr std::string_view kOperators[] = {"<", "=", "<=", ">", "!=", ">="};
    const auto found = std::ranges::find(kOperators, text == ":" ? "=" : text);
    return static_cast<Relation>(found - std::begin(kOperators) + 1);
  }

  // The value that is next. A text with a '*' changes the relation.
  absl::StatusOr<FieldValue> ValueFor(const SessionField& field,
                                      Relation& relation) const {
    const FilterWord& word = Next();
    if (relation == Relation::kPresent) return Absent();
    switch (field.type) {
      case Type::kText:
        return TextFor(field, relation);
      case Type::kInteger: {
        int64_t number = 0;
        const char* end = word.text.data() + word.text.size();
        const auto read = std::from_chars(word.text.data(), end, number);
        if (word.kind == Kind::kQuoted || read.ec != std::errc() || read.ptr != end) {
          return WrongValue(field, "an integer of 64 bits without quotes");
        }
        return number;
      }
      case Type::kTime: {
        const auto time = ParseRfc3339(word.text);
        if (word.kind != Kind::kQuoted || !time) {
          return WrongValue(
              field, "a time of RFC 3339 in quotes such as \"2026-03-01T12:30:00Z\"");
        }
        return *time;
      }
      case Type::kEnumeration:
      case Type::kTruth:
        break;
    }
    const auto found = std::find(field.values.begin(), field.values.end(), word.text);
    const bool quoted = word.kind == Kind::kQuoted && field.type == Type::kTruth;
    if (quoted || found == field.values.end()) {
      return WrongValue(field, StrCat("one of ", StrJoin(field.values, ", ")));
    }
    return static_cast<int64_t>(found - field.values.begin());
  }

  absl::StatusOr<FieldValue> TextFor(const SessionField& field,
                                     Relation& relation) const {
    std::string_view text = Next().text;
    if (!field.collection.empty()) {
      if (text.substr(0, field.collection.size()) == field.collection) {
        text.remove_prefix(field.collection.size());
      }
      if (text.find('/') != text.npos) {
        return WrongValue(field, StrCat("an id, or ", field.collection, "ID"));
      }
    }
    if (text.empty() || text.find('*') == text.npos) return std::string(text);
    if (text.find('*') != text.size() - 1) {
      return Error(StrCat("'*' stands at the end of a value only, not as in ",
                          Quoted(Next().text)));
    }
    if (relation != Relation::kEqual && relation != Relation::kNotEqual) {
      return Error("'*' stands behind = != : only");
    }
    relation = relation == Relation::kEqual ? Relation::kBegins : Relation::kNotBegins;
    text.remove_suffix(1);
    return std::string(text);
  }

  const FilterWord& Next() const { return words_[at_]; }
  static bool IsKeyword(std::string_view text) {
    return text == "AND" || text == "OR" || text == "NOT";
  }
  bool Take(std::string_view keyword) {
    const bool taken = Next().kind == Kind::kBare && Next().text == keyword;
    if (taken) ++at_;
    return taken;
  }
  // A '-' stands before a field or a parenthesis, in one word with the field.
  bool TakeMinus() {
    FilterWord& next = words_[at_];
    if (next.kind != Kind::kBare || next.text[0] != '-') return false;
    next.text.erase(0, 1);
    ++next.position;
    if (next.text.empty()) ++at_;
    return true;
  }

  absl::Status Error(std::string_view fault) const {
    return FilterError(Next().position, fault);
  }
  absl::Status Expected(std::string_view what) const {
    const bool ended = Next().kind == Kind::kEnd;
    return Error(
        StrCat("expected ", what, ", found ", ended ? "the end" : Quoted(Next().text)));
  }
  absl::Status WrongValue(const SessionField& field, std::string_view what) const {
    return Error(StrCat("the value of ", field.name, " must be ", what, ", not ",
                        Quoted(Next().text)));
  }

  std::vector<FilterWord> words_;
  size_t at_ = 0;  // the word that is next; at most the end
  SessionFilter filter_;
};

absl::StatusOr<SessionFilter> SessionFilter::Parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return FilterError(kMaxBytes + 1, StrCat("a filter has at most ", kMaxBytes,
                                             " bytes, got ", text.size()));
  }
  MNEMON_ASSIGN_OR_RETURN(std::vector<FilterWord> words, CutFilter(text));
  return FilterParser(std::move(words)).Parse();
}

bool SessionFilter::Matches(const SessionFacts& facts) const {
  // An operand waits on the stack only while another comparison follows.
  std::array<bool, kMaxComparisons> stack{};
  size_t size = 0;
  auto comparison = comparisons_.begin();
  for (const Step step : steps_) {
    if (step == Step::kCompare) {
      stack[size++] = Holds(*comparison++, facts);
    } else if (step == Step::kNot) {
      stack[size - 1] = !stack[size - 1];
    } else {
      --size;
      const bool last = stack[size];
      bool& before = stack[size - 1];
      before = step == Step::kAnd ? before && last : before || last;
    }
  }
  return size == 0 || stack[0];
}

SessionFilter::IdRange SessionFilter::IdsOf(const Comparison& comparison) {
  const std::string* const text = std::get_if<std::string>(&comparison.value);
  if (comparison.field != FindSessionField("name") || text == nullptr) return {};
  const Relation relation = comparison.relation;
  if (relation == Relation::kBegins) return {*text, AfterPrefix(*text)};
  if (relation == Relation::kNotBegins) return {};
  const std::string next = *text + '\0';  // no other one is between them
  IdRange ids;
  if (!Includes(relation, Relation::kLess)) {
    ids.begin = Includes(relation, Relation::kEqual) ? *text : next;
  }
  if (!Includes(relation, Relation::kGreater)) {
    ids.end = Includes(relation, Relation::kEqual) ? next : *text;
  }
  return ids;
}

SessionFilter::IdRange SessionFilter::FindIds() const {
  std::vector<IdRange> stack;
  auto comparison = comparisons_.begin();
  for (const Step step : steps_) {
    if (step == Step::kCompare) {
      stack.push_back(IdsOf(*comparison++));
    } else if (step == Step::kNot) {
      stack.back() = {};
    } else {
      const IdRange last = std::move(stack.back());
      stack.pop_back();
      IdRange& before = stack.back();
      const bool both = step == Step::kAnd;
      if ((before.begin < last.begin) == both) before.begin = last.begin;
      if (EndsBefore(last.end, before.end) == both) before.end = last.end;
    }
  }
  return stack.empty() ? IdRange() : std::move(stack.back());
}

bool SessionFilter::Holds(const Comparison& comparison, const SessionFacts& facts) {
  const FieldValue value = comparison.field->value(facts);
  const Relation relation = comparison.relation;
  const std::string* const text = std::get_if<std::string>(&value);
  if (std::holds_alternative<Absent>(value)) return false;
  if (relation == Relation::kPresent) return text == nullptr || !text->empty();
  if (relation == Relation::kBegins || relation == Relation::kNotBegins) {
    const bool begins = text->starts_with(std::get<std::string>(comparison.value));
    return begins == (relation == Relation::kBegins);
  }
  return Includes(relation, value < comparison.value    ? Relation::kLess
                            : value == comparison.value ? Relation::kEqual
                                                        : Relation::kGreater);
}

}  // namespace mnemon
