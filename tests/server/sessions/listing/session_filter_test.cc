// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_filter.h"

#include <functional>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/requests/random_facts.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

SessionFacts Example() {
  SessionFacts facts;
  facts.id = "chat-7";
  facts.model = "small";
  facts.state = SessionState::kRunning;
  facts.position = 1234;
  facts.state_size_bytes = int64_t{5} << 32;
  facts.create_time = SecondsAfter1970(1'772'368'200);  // 2026-03-01T12:30:00Z
  facts.last_use_time = facts.create_time + std::chrono::milliseconds(1500);
  facts.parent = "chat-6";
  facts.rebuilt = true;
  facts.durability = Durability::kTurn;
  facts.tier = SessionTier::kHost;
  facts.model_id = "0123abcd";
  facts.numerics_id = "it's \"fp32\" \\ 1";
  return facts;
}

bool Matches(const std::string& text, const SessionFacts& facts) {
  const auto filter = SessionFilter::Parse(text);
  EXPECT_TRUE(filter.ok()) << text << ": " << filter.status();
  return filter.ok() && filter->Matches(facts);
}

TEST(SessionFilter, Comparisons) {
  const struct {
    const char* text;
    bool matches;
  } cases[] = {
      {"", true},
      {" \t\n", true},
      {"name = sessions/chat-7", true},
      {"name = chat-7", true},
      {"name=\"sessions/chat-7\"", true},
      {"name='chat-7'", true},
      {"name : chat-7", true},
      {"name = chat-", false},
      {"name != chat-7", false},
      {"name < chat-8 AND name > chat-6", true},
      {"name >= chat-7 name <= chat-7", true},
      {"name = \"sessions/chat-*\"", true},
      {"name = chat-7*", true},
      {"name = chat-77*", false},
      {"name = sessions/*", true},
      {"name:chat*", true},
      {"name != \"chat-*\"", false},
      {"name != \"other-*\"", true},
      {"name:*", true},
      {"model = models/small", true},
      {"model = small", true},
      {"model = models/smal", false},
      {"state = RUNNING", true},
      {"state = \"RUNNING\"", true},
      {"state:RUNNING", true},
      {"state != IDLE", true},
      {"state = QUEUED OR state = PAUSED", false},
      {"token_count = 1234", true},
      {"token_count != 1234", false},
      {"token_count<1234", false},
      {"token_count<=1234", true},
      {"token_count>-5", true},
      {"token_count >= 1235", false},
      {"state_size_bytes > 21474836479", true},
      {"state_size_bytes < 9223372036854775807", true},
      {"create_time = \"2026-03-01T12:30:00Z\"", true},
      {"create_time = \"2026-03-01T14:00:00.000+01:30\"", true},
      {"create_time < '2026-03-01T12:30:00.000000001Z'", true},
      {"create_time > \"9999-12-31T23:59:59Z\"", false},
      {"last_use_time = \"2026-03-01T12:30:01.5Z\"", true},
      {"create_time:*", true},
      {"expire_time:*", false},
      {"expire_time < \"9999-01-01T00:00:00Z\"", false},
      {"expire_time >= \"0000-01-01T00:00:00Z\"", false},
      {"expire_time = \"2026-03-01T12:30:00Z\"", false},
      {"expire_time != \"2026-03-01T12:30:00Z\"", false},
      {"NOT expire_time != \"2026-03-01T12:30:00Z\"", true},
      {"parent = sessions/chat-6", true},
      {"parent = \"\"", false},
      {"parent:*", true},
      {"rebuilt = true", true},
      {"paused = true", false},
      {"paused != true", true},
      {"paused:false", true},
      {"durability = TURN", true},
      {"durability != TURN", false},
      {"tier = HOST", true},
      {"tier:DISK", false},
      {"model_id = 0123*", true},
      {"numerics_id = \"it's \\\"fp32\\\" \\\\ 1\"", true},
      {"numerics_id = 'it\\'s \"fp32\" \\\\ 1'", true},
  };
  for (const auto& c : cases)
    EXPECT_EQ(Matches(c.text, Example()), c.matches) << c.text;
}

TEST(SessionFilter, Precedence) {
  // t is true and f false of the example.
  const auto text = [](std::string_view letters) {
    std::string out;
    for (const char c : letters) {
      out += c == 't'   ? "rebuilt=true"
             : c == 'f' ? "rebuilt=false"
             : c == '|' ? " OR "
             : c == '&' ? " AND "
             : c == '!' ? "NOT "
                        : std::string(1, c);
    }
    return out;
  };
  const struct {
    const char* letters;
    bool matches;
  } cases[] = {
      {"t|t&f", false},     // (t|t)&f, not t|(t&f)
      {"f&t|t", false},     // f&(t|t), not (f&t)|t
      {"t|t f", false},     // likewise without AND
      {"f t|t", false},     //
      {"(t&f)|t", true},    //
      {"t|(t f)", true},    //
      {"!f", true},         //
      {"-f", true},         //
      {"!t|t", true},       // (!t)|t, not !(t|t)
      {"!(t|t)", false},    //
      {"-(t f)", true},     //
      {"-(t f) -f", true},  //
      {"t&-t|f", false},    //
      {"((t))", true},      //
      {"(t)(t)", true},     //
      {"f|f|f|t&t|f", true},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Matches(text(c.letters), Example()), c.matches) << c.letters;
  }
}

TEST(SessionFilter, ErrorsNameThePositionAndTheFault) {
  const struct {
    const char* text;
    int position;
    const char* fault;
  } cases[] = {
      {"x = 1", 1, "no field 'x': the fields are name, model, state, token_count"},
      {"stat = IDLE", 1, "did you mean state?"},
      {"  state = IDLE AND foo:1", 20, "no field 'foo'"},
      {"checkpoints:*", 1, "no field 'checkpoints'"},
      {"state = IDLE and paused = true", 14, "in capitals"},
      {"state", 6, "expected an operator such as = behind state, found the end"},
      {"state IDLE", 7, "found 'IDLE'"},
      {"state =", 8, "expected a value to compare state with, found the end"},
      {"state = )", 9, "found ')'"},
      {"state = (IDLE OR QUEUED)", 9, "found '('"},
      {"state = = IDLE", 9, "found '='"},
      {"state == IDLE", 8, "found '='"},
      {"state = idle", 9,
       "must be one of IDLE, QUEUED, RUNNING, PAUSED, DETACHED, not 'idle'"},
      {"state < IDLE", 7, "state has no operator <, only = != :"},
      {"paused >= true", 8, "paused has no operator >="},
      {"paused = yes", 10, "must be one of false, true"},
      {"paused = \"true\"", 10, "must be one of false, true"},
      {"durability = 1", 14, "NONE, TURN, ALWAYS"},
      {"token_count : 5", 13, "token_count has no operator :, only = != < <= > >="},
      {"token_count = x", 15, "must be an integer"},
      {"token_count = \"5\"", 15, "without quotes"},
      {"token_count = 5.0", 15, "must be an integer"},
      {"token_count = 9223372036854775808", 15, "must be an integer"},
      {"create_time = 2026", 15, "a time of RFC 3339 in quotes"},
      {"create_time > 2026-03-01T12:30:00Z", 15, "in quotes"},
      {"create_time = \"yesterday\"", 15, "not 'yesterday'"},
      {"create_time : \"2026-03-01T12:30:00Z\"", 13, "takes * only"},
      {"name = models/a", 8, "an id, or sessions/ID"},
      {"name = a*b", 8, "'*' stands at the end"},
      {"name = \"*b\"", 8, "'*' stands at the end"},
      {"name < a*", 8, "'*' stands behind = != : only"},
      {"(state = IDLE", 1, "'(' is not closed"},
      {"state = IDLE AND ((paused = true)", 18, "'(' is not closed"},
      {"state = IDLE)", 13, "')' without '('"},
      {")", 1, "expected a comparison"},
      {"()", 2, "expected a comparison"},
      {"AND", 1, "expected a comparison"},
      {"state = IDLE AND", 17, "found the end"},
      {"state = IDLE OR OR", 17, "found 'OR'"},
      {"state = IDLE OR", 16, "found the end"},
      {"NOT", 4, "found the end"},
      {"NOT NOT state = IDLE", 5, "found 'NOT'"},
      {"-", 2, "found the end"},
      {"\"hello\"", 1, "expected a comparison such as `state = IDLE`"},
      {"state = \"IDLE", 9, "this quote does not end"},
      {"name = \"a\\n\"", 10, "a backslash in quotes"},
      {"name = 'a\\", 10, "a backslash in quotes"},
      {"state ! IDLE", 7, "'!' stands in '!=' only"},
      {"state = IDLE\x01", 13, "a control character"},
  };
  for (const auto& c : cases) {
    const absl::Status status = SessionFilter::Parse(c.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
    EXPECT_EQ(detail.field, "filter") << c.text;
    EXPECT_EQ(detail.reason, "INVALID_VALUE") << c.text;
    EXPECT_EQ(detail.metadata["position"], StrCat(c.position)) << c.text << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.fault)) << c.text;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(StrCat("filter, position ", c.position, ": ")));
  }
}

TEST(SessionFilter, Bounds) {
  std::string most = "paused = true";
  for (size_t i = 1; i < SessionFilter::kMaxComparisons; ++i) most += " OR paused=true";
  EXPECT_FALSE(Matches(most, Example()));
  EXPECT_THAT(std::string(SessionFilter::Parse(most + " tier=HOST").status().message()),
              HasSubstr("at most 64 comparisons"));

  // As many operands as there can be wait on the stack.
  std::string right;
  for (int i = 0; i < SessionFilter::kMaxNesting; ++i) right += "rebuilt=true (";
  EXPECT_TRUE(Matches(right + "tier=HOST" + std::string(32, ')'), Example()));

  const auto nested = [](int depth) {
    return std::string(depth, '(') + "tier=HOST" + std::string(depth, ')');
  };
  EXPECT_TRUE(Matches(nested(32), Example()));
  const absl::Status deep = SessionFilter::Parse(nested(33)).status();
  EXPECT_THAT(std::string(deep.message()), HasSubstr("position 33: parentheses may"));
  EXPECT_FALSE(SessionFilter::Parse(std::string(4096, '(')).ok());

  const std::string one = "tier=HOST";
  EXPECT_TRUE(SessionFilter::Parse(one + std::string(4096 - one.size(), ' ')).ok());
  const absl::Status long_one =
      SessionFilter::Parse(one + std::string(4097 - one.size(), ' ')).status();
  EXPECT_THAT(std::string(long_one.message()), HasSubstr("at most 4096 bytes"));
  const absl::Status huge = SessionFilter::Parse(std::string(4096, 'x')).status();
  EXPECT_LT(huge.message().size(), 600u);
}

TEST(SessionFilter, KnowsWhichIdsMatch) {
  const std::string end(1, '\0');
  const struct {
    const char* text;
    SessionFilter::IdRange ids;
  } kCases[] = {
      {"", {"", std::nullopt}},
      {"token_count > 4", {"", std::nullopt}},
      {"parent = sessions/b", {"", std::nullopt}},
      {"name = sessions/b", {"b", "b" + end}},
      {"name < sessions/b", {"", "b"}},
      {"name <= b", {"", "b" + end}},
      {"name > b", {"b" + end, std::nullopt}},
      {"name >= b", {"b", std::nullopt}},
      {"name = \"sessions/chat-*\"", {"chat-", "chat."}},
      {"name = \"b\xff*\"", {"b\xff", "c"}},
      {"name = \"\xff*\"", {"\xff", std::nullopt}},
      {"name != b", {"", std::nullopt}},
      {"name != b*", {"", std::nullopt}},
      {"name:*", {"", std::nullopt}},
      {"NOT name = b", {"", std::nullopt}},
      {"name >= b AND state = IDLE AND name < d", {"b", "d"}},
      {"name = b* name = c*", {"c", "c"}},
      {"name = d* OR name = b*", {"b", "e"}},
      {"name = b* OR state = IDLE", {"", std::nullopt}},
      {"name > a (name = d OR name = b*)", {"b", "d" + end}},
  };
  for (const auto& [text, ids] : kCases) {
    const auto filter = SessionFilter::Parse(text);
    ASSERT_TRUE(filter.ok()) << text << ": " << filter.status();
    EXPECT_EQ(filter->ids(), ids) << text << ": " << filter->ids().begin << ", "
                                  << filter->ids().end.value_or("none");
  }
}

// A random filter as text beside what it means, written without the parser's parts.
class RandomFilter {
 public:
  using Meaning = std::function<bool(const SessionFacts&)>;
  struct Filter {
    std::string text;
    Meaning meaning;
  };
  explicit RandomFilter(uint32_t seed) : random_(seed) {}

  Filter Expression(int depth) {
    Filter out = Factor(depth);
    while (Below(3) == 0) {
      Filter next = Factor(depth);
      out.text += (Below(2) ? " AND " : "  ") + next.text;
      out.meaning = [a = out.meaning, b = next.meaning](const SessionFacts& facts) {
        return a(facts) && b(facts);
      };
    }
    return out;
  }
  std::mt19937& random() { return random_; }

 private:
  uint32_t Below(uint32_t end) { return random_() % end; }

  Filter Factor(int depth) {
    Filter out = Term(depth);
    while (Below(3) == 0) {
      Filter next = Term(depth);
      out.text += " OR " + next.text;
      out.meaning = [a = out.meaning, b = next.meaning](const SessionFacts& facts) {
        return a(facts) || b(facts);
      };
    }
    return out;
  }
  Filter Term(int depth) {
    const bool negated = Below(4) == 0;
    Filter out;
    if (depth > 0 && Below(3) == 0) {
      out = Expression(depth - 1);
      out.text = "(" + out.text + ")";
    } else {
      out = Comparison();
    }
    if (!negated) return out;
    return {(Below(2) ? "NOT " : "-") + out.text,
            [a = out.meaning](const SessionFacts& facts) { return !a(facts); }};
  }
  template <class Value>
  Filter Ordered(std::string name, std::string text, Value value,
                 std::optional<Value> (*of)(const SessionFacts&)) {
    const char* kOperators[] = {"=", "!=", "<", "<=", ">", ">="};
    const uint32_t which = Below(6);
    return {name + (Below(2) ? " " : "") + kOperators[which] + text,
            [=](const SessionFacts& facts) {
              const std::optional<Value> mine = of(facts);
              if (!mine) return false;
              const bool holds[] = {*mine == value, *mine != value,
                                    *mine<value, *mine <= value, *mine> value,
                                    *mine >= value};
              return holds[which];
            }};
  }
  Filter Comparison() {
    using Time = std::chrono::system_clock::time_point;
    const int small = static_cast<int>(Below(4));
    switch (Below(8)) {
      case 7:
        return Ordered<std::string>("name", StrCat("s", small), StrCat("s", small),
                                    [](const SessionFacts& facts) {
                                      return std::optional<std::string>(facts.id);
                                    });
      case 0:
        return Ordered<int64_t>("token_count", StrCat(small), small,
                                [](const SessionFacts& facts) {
                                  return std::optional<int64_t>(facts.position);
                                });
      case 1:
        return Ordered<Time>(
            "expire_time", StrCat("\"1970-01-01T00:00:0", small, "Z\""),
            SecondsAfter1970(small),
            [](const SessionFacts& facts) { return facts.expire_time; });
      case 2:
        return Ordered<Time>("last_use_time",
                             StrCat("'1970-01-01T01:00:0", small, "+01:00'"),
                             SecondsAfter1970(small), [](const SessionFacts& facts) {
                               return std::optional<Time>(facts.last_use_time);
                             });
      case 3:
        return Ordered<std::string>("parent", StrCat(" sessions/s", small),
                                    StrCat("s", small), [](const SessionFacts& facts) {
                                      return std::optional<std::string>(facts.parent);
                                    });
      case 4:
        return {"model: a*", [](const SessionFacts& facts) {
                  return facts.model.substr(0, 1) == "a";
                }};
      case 5:
        return {"model = models/ab*", [](const SessionFacts& facts) {
                  return facts.model.substr(0, 2) == "ab";
                }};
      default:
        return {"state != QUEUED", [](const SessionFacts& facts) {
                  return facts.state != SessionState::kQueued;
                }};
    }
  }

  std::mt19937 random_;
};

TEST(SessionFilter, MeansWhatItSays) {
  RandomFilter random(1);
  int64_t matched = 0, looked_at = 0;
  for (int i = 0; i < 2000; ++i) {
    const RandomFilter::Filter expected = random.Expression(4);
    const auto filter = SessionFilter::Parse(expected.text);
    if (!filter.ok()) {
      EXPECT_THAT(std::string(filter.status().message()), HasSubstr("at most"))
          << expected.text << filter.status();
      continue;
    }
    for (int k = 0; k < 20; ++k) {
      const SessionFacts facts = RandomFacts(StrCat("s", k % 5), random.random());
      EXPECT_EQ(filter->Matches(facts), expected.meaning(facts)) << expected.text;
      if (expected.meaning(facts)) {
        EXPECT_GE(facts.id, filter->ids().begin) << expected.text;
        const auto& end = filter->ids().end;
        EXPECT_TRUE(!end || facts.id < *end) << expected.text;
      }
      matched += expected.meaning(facts);
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 30'000);
  EXPECT_GT(matched, looked_at / 10);
  EXPECT_LT(matched, looked_at * 9 / 10);
}

TEST(SessionFilter, HostileTexts) {
  const std::string_view parts[] = {"state",
                                    "=",
                                    "IDLE",
                                    "name",
                                    "(",
                                    ")",
                                    "AND",
                                    "OR",
                                    "NOT",
                                    "-",
                                    " ",
                                    "\"",
                                    "'",
                                    "\\",
                                    "*",
                                    ":",
                                    "<",
                                    ">=",
                                    "!",
                                    "!=",
                                    "5",
                                    "\n",
                                    "\x01",
                                    "\xff",
                                    "é",
                                    "-9",
                                    ",",
                                    ".",
                                    "/",
                                    "token_count",
                                    "paused=true",
                                    "expire_time:*",
                                    "create_time>\"1970-01-01T00:00:00Z\""};
  std::mt19937 random(7);
  const SessionFacts facts = Example();
  int good = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string text;
    for (size_t k = random() % 12; k > 0; --k) {
      if (random() % 8 == 0) {
        text += static_cast<char>(random());
      } else {
        text += parts[random() % std::size(parts)];
      }
    }
    const auto filter = SessionFilter::Parse(text);
    if (filter.ok()) {
      (void)filter->Matches(facts);
      ++good;
      continue;
    }
    const ErrorDetail detail = *GetErrorDetail(filter.status());
    EXPECT_EQ(detail.field, "filter");
    const int position = std::stoi(detail.metadata.at("position"));
    EXPECT_GE(position, 1);
    EXPECT_LE(position, static_cast<int>(text.size()) + 1) << text;
  }
  EXPECT_GT(good, 100);
}

}  // namespace
}  // namespace mnemon
