// SPDX-License-Identifier: MIT
#include "server/sessions/call_record.h"

#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

CallRecord Full() {
  CallParams params{.request_id = "00000000-0000-4000-8000-000000000001",
                    .request_hash = "abc",
                    .max_tokens = 70,
                    .stop_tokens = {4, 9},
                    .end_tokens = {2, 7},
                    .stop_strings = {"a", "\xe2\x82\xac\n"},
                    .time_limit = milliseconds(1500),
                    .on_disconnect = OnDisconnect::kContinue};
  params.sampling.values = {.temperature = 0.7, .top_k = 5, .repetition_penalty = 1.1};
  params.sampling.values.logit_bias = {
      {.token = 3, .bias = -std::numeric_limits<float>::infinity()}};
  params.sampling.seed = std::numeric_limits<uint64_t>::max();
  params.logprobs = {.wanted = true, .candidates = {.most_likely = 2, .ids = {7, 1}}};
  params.introspection = {.memory_reads = true, .state_norms = true};
  CallRecord record{.params = std::make_shared<const CallParams>(std::move(params)),
                    .base = 5,
                    .prompt_end = 8,
                    .prompt = {1, 2, 3},
                    .queue_time = nanoseconds(77),
                    .delivered = 11};
  record.end = {.status = MakeError(absl::StatusCode::kInternal, "broken",
                                    {.reason = "NON_FINITE_STATE",
                                     .field = "prompt",
                                     .retry_after = milliseconds(20),
                                     .metadata = {{"session", "s"}}}),
                .facts = FinishFacts{.reason = FinishReason::kStopString,
                                     .stop_token = 4,
                                     .stop_string = "\xe2\x82\xac\n",
                                     .generated_tokens = 6,
                                     .prompt_time = nanoseconds(1),
                                     .generation_time = nanoseconds(2)},
                .size = 14};
  return record;
}

CallRecord Small() {
  CallParams params{.request_id = "00000000-0000-4000-8000-000000000001"};
  params.sampling.seed = 0;
  return {.params = std::make_shared<const CallParams>(std::move(params))};
}

TEST(CallRecord, ComesBackFromItsText) {
  for (const CallRecord& record : {Full(), Small()}) {
    const auto parsed = ParseCallRecord(FormatCallRecord(record));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, record);
  }
  CallRecord cancelled = Small();
  cancelled.end = {.status = absl::CancelledError("x"), .facts = {}, .size = 1};
  EXPECT_EQ(*ParseCallRecord(FormatCallRecord(cancelled)), cancelled);
}

TEST(CallRecord, IsOpenWhileTokensAreMissing) {
  CallRecord record = Small();
  EXPECT_TRUE(record.open(100));
  record.end = {.status = {}, .facts = {}, .size = 5};
  EXPECT_TRUE(record.open(4));
  EXPECT_FALSE(record.open(5));
}

TEST(CallRecord, RefusesWhatIsNotOne) {
  const std::string good = FormatCallRecord(Full());
  const auto with = [&](const std::string& key, const std::string& value) {
    // The last of two equal keys counts.
    return StrCat(good.substr(0, good.size() - 1), ",\"", key, "\":", value, "}");
  };
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"request_id", "1"},
      {"request_id", "\"\""},
      {"base", "-1"},
      {"base", "9"},
      {"base", "1.5"},
      {"base", "18446744073709551615"},
      {"prompt", "[2147483648]"},
      {"prompt", "3"},
      {"stop_strings", "[1]"},
      {"introspection", "[1]"},
      {"on_disconnect", "\"stop\""},
      {"sampling", "{}"},
      {"sampling", "[]"},
      {"end", "1"},
      {"end", R"({"size":1,"code":99})"},
      {"end", R"({"facts":{"reason":"bored"}})"},
      {"end", R"({"facts":{"reason":"max_tokens","generated":-1}})"},
      {"end", R"({"code":1,"metadata":{"a":1}})"},
  };
  ASSERT_TRUE(ParseCallRecord(with("other", "[]")).ok());
  for (const auto& [key, value] : bad) {
    const auto parsed = ParseCallRecord(with(key, value));
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss) << key << value;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ParseCallRecord(good.substr(0, size)).ok());
  }
}

TEST(CallRecord, TheHashDiffersWithAllThatMatters) {
  using Change = std::function<void(GenerateRequest&)>;
  const auto with_tokens = [](std::vector<int32_t> tokens) {
    return GenerateRequest{.prompt = std::move(tokens)};
  };
  const GenerateRequest text{.prompt = "ab"};
  const GenerateRequest two = with_tokens({1, 2}), one = with_tokens({12});
  const std::vector<Change> changes = {
      [](GenerateRequest&) {},
      [&](GenerateRequest& r) { r = text; },
      [&](GenerateRequest& r) { r = two; },
      [&](GenerateRequest& r) { r = one; },
      [](GenerateRequest& r) { r.sampling.top_k = 3; },
      [](GenerateRequest& r) { r.seed = 0; },
      [](GenerateRequest& r) { r.session_sampling = true; },
      [](GenerateRequest& r) { r.max_tokens = 3; },
      [](GenerateRequest& r) { r.stop_tokens = {1}; },
      [](GenerateRequest& r) { r.ignore_end = true; },
      [](GenerateRequest& r) { r.stop_strings = {"ab"}; },
      [](GenerateRequest& r) {
        r.stop_strings = {"a", "b"};
      },
      [](GenerateRequest& r) { r.time_limit = milliseconds(5); },
      [](GenerateRequest& r) { r.logprobs.wanted = true; },
      [](GenerateRequest& r) { r.logprobs.candidates.most_likely = 2; },
      [](GenerateRequest& r) { r.logprobs.candidates.ids = {2}; },
      [](GenerateRequest& r) { r.introspection.hidden_state = true; },
      [](GenerateRequest& r) { r.introspection.memory_reads = true; },
      [](GenerateRequest& r) { r.on_disconnect = OnDisconnect::kContinue; },
  };
  std::set<std::string> hashes;
  for (const Change& change : changes) {
    GenerateRequest request;
    change(request);
    hashes.insert(HashOf(request));
    request.deadline.emplace();
    request.expected_position = 4;
    hashes.insert(HashOf(request));
  }
  EXPECT_EQ(hashes.size(), changes.size());
}

}  // namespace
}  // namespace mnemon
