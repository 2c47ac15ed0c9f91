// SPDX-License-Identifier: MIT
#include "server/snapshots/snapshot.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/snapshots/snapshot_layout.h"
#include "tests/server/snapshots/sample_snapshots.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBlockFloats = kSnapshotBlock / 4;

std::string Encoded(const Snapshot& snapshot) {
  const auto bytes = EncodeSnapshot(snapshot);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.value_or("");
}

// Bit for bit, which == on floats is not.
void ExpectSame(const Snapshot& found, const Snapshot& expected) {
  EXPECT_EQ(found, expected);
  ASSERT_EQ(found.state.size(), expected.state.size());
  if (found.state.empty()) return;
  EXPECT_EQ(std::memcmp(found.state.data(), expected.state.data(),
                        found.state.size() * sizeof(float)),
            0);
}

// Returns its bytes.
std::string CheckRoundTrip(const Snapshot& snapshot) {
  const std::string bytes = Encoded(snapshot);
  const auto decoded = DecodeSnapshot(bytes, kWideLimits);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  if (!decoded.ok()) return bytes;
  ExpectSame(*decoded, snapshot);
  EXPECT_EQ(Encoded(*decoded), bytes);

  const auto header = ReadSnapshotHeader(bytes);
  EXPECT_TRUE(header.ok()) << header.status();
  if (!header.ok()) return bytes;
  EXPECT_EQ(header->model_id, snapshot.model_id);
  EXPECT_EQ(header->numerics_id, snapshot.numerics_id);
  EXPECT_EQ(header->architecture, snapshot.architecture);
  EXPECT_EQ(header->spec_hash, snapshot.spec_hash);
  EXPECT_EQ(header->session, snapshot.session);
  EXPECT_EQ(header->entries, snapshot.entries);
  EXPECT_EQ(header->tokens, static_cast<int64_t>(snapshot.tokens.size()));
  EXPECT_EQ(header->computed, snapshot.computed);
  EXPECT_EQ(header->state_bytes, static_cast<int64_t>(snapshot.state.size() * 4));
  EXPECT_EQ(header->bytes, static_cast<int64_t>(bytes.size()));
  return bytes;
}

TEST(Snapshot, OfNothingIsTheSameAgain) { CheckRoundTrip({}); }

TEST(Snapshot, WithoutAStateKeepsTheHistory) { CheckRoundTrip(FixedSnapshot(1000, 0)); }

TEST(Snapshot, OfEachGrowthIsTheSameAgain) {
  CheckRoundTrip(FixedSnapshot(7, 100));
  for (const int64_t computed : {0, 1, 15, 16, 17, 40}) {
    CheckRoundTrip(GrowingSnapshot(Growth::kRing, 16, 40, computed));
    CheckRoundTrip(GrowingSnapshot(Growth::kAppend, 40, 40, computed));
  }
}

TEST(Snapshot, KeepsEveryFiniteNumber) {
  Snapshot snapshot = FixedSnapshot(1, 6);
  using Limits = std::numeric_limits<float>;
  snapshot.state = {-0.0f,         Limits::denorm_min(), -Limits::denorm_min(),
                    Limits::max(), Limits::lowest(),     Limits::min()};
  snapshot.tokens = {std::numeric_limits<int32_t>::max()};
  CheckRoundTrip(snapshot);
}

TEST(Snapshot, KeepsTheTextOfTheSession) {
  Snapshot snapshot = FixedSnapshot(1, 1);
  snapshot.session = "{ \"b\":1.50,\n\t\"a\" : \"\\u00e4\xc3\xa4\\\"\" }";
  CheckRoundTrip(snapshot);
  const std::string around = R"({"x":""})";
  snapshot.session =
      R"({"x":")" + std::string((size_t{64} << 10) - around.size(), '\x7f') + "\"}";
  CheckRoundTrip(snapshot);
}

TEST(Snapshot, OfSizesAroundABlockIsTheSameAgain) {
  for (const int64_t off : {-1, 0, 1}) {
    for (const int64_t blocks : {1, 2}) {
      const int64_t count = blocks * kBlockFloats + off;
      const std::string bytes = CheckRoundTrip(FixedSnapshot(count, count));
      SnapshotFront front;
      std::memcpy(&front, bytes.data(), sizeof(front));
      EXPECT_EQ(front.blocks, 2 * (blocks + (off > 0))) << count;
    }
  }
}

TEST(Snapshot, OfAnyKindIsTheSameAgain) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    CheckRoundTrip(RandomSnapshot(seed));
    if (HasFailure()) return;
  }
}

TEST(Snapshot, IsCompressedWhereThatHelps) {
  Snapshot snapshot = FixedSnapshot(0, 3 * kBlockFloats);
  const auto bytes = [&] {
    return static_cast<int64_t>(CheckRoundTrip(snapshot).size());
  };
  const int64_t dense = bytes();
  EXPECT_GT(dense, 3 * kSnapshotBlock);
  // Each block for itself.
  std::fill(snapshot.state.begin() + kBlockFloats,
            snapshot.state.begin() + 2 * kBlockFloats, 0.0f);
  EXPECT_LT(bytes(), dense - kSnapshotBlock + 1000);
  snapshot.tokens.assign(10'000, 65);
  EXPECT_LT(bytes(), dense - kSnapshotBlock + 2000);
}

TEST(Snapshot, HeaderIsReadFromTheFront) {
  const std::string bytes = Encoded(FixedSnapshot(10, kBlockFloats));
  SnapshotFront front;
  std::memcpy(&front, bytes.data(), sizeof(front));
  const auto header = ReadSnapshotHeader(bytes.substr(0, front.header_bytes));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_FALSE(ReadSnapshotHeader(bytes.substr(0, front.header_bytes - 1)).ok());
  EXPECT_FALSE(ReadSnapshotHeader(bytes + "x").ok());
}

TEST(Snapshot, BeyondTheLimitsIsRefused) {
  const std::string bytes = Encoded(FixedSnapshot(10, 20));
  EXPECT_TRUE(DecodeSnapshot(bytes, {.tokens = 10, .state_bytes = 80}).ok());
  for (const SnapshotLimits& limits :
       {SnapshotLimits{.tokens = 9, .state_bytes = 80},
        SnapshotLimits{.tokens = 10, .state_bytes = 79}}) {
    const auto decoded = DecodeSnapshot(bytes, limits);
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetErrorDetail(decoded.status())->reason, "SNAPSHOT_TOO_LARGE");
  }
}

struct BadSnapshot {
  const char* what;
  void (*spoil)(Snapshot& snapshot);
  const char* message;
};

class UnfitSnapshot : public testing::TestWithParam<BadSnapshot> {};

TEST_P(UnfitSnapshot, IsNotEncoded) {
  Snapshot snapshot = GrowingSnapshot(Growth::kRing, 4, 10, 8);
  ASSERT_TRUE(EncodeSnapshot(snapshot).ok());
  GetParam().spoil(snapshot);
  const auto bytes = EncodeSnapshot(snapshot);
  ASSERT_EQ(bytes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(bytes.status().message(), HasSubstr(GetParam().message));
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
INSTANTIATE_TEST_SUITE_P(
    Each, UnfitSnapshot,
    testing::Values(
        BadSnapshot{"identity", [](Snapshot& s) { s.model_id = "\x80"; }, "model_id"},
        BadSnapshot{"long", [](Snapshot& s) { s.numerics_id.resize(257, 'x'); },
                    "numerics_id"},
        BadSnapshot{"no_json", [](Snapshot& s) { s.session = "{"; }, "session"},
        BadSnapshot{"no_object", [](Snapshot& s) { s.session = "[]"; }, "session"},
        BadSnapshot{"deep_session",
                    [](Snapshot& s) {
                      s.session =
                          "{\"a\":" + std::string(16, '[') + std::string(16, ']') + "}";
                    },
                    "nested deeper"},
        BadSnapshot{"large_session",
                    [](Snapshot& s) { s.session.append(size_t{64} << 10, ' '); },
                    "session"},
        BadSnapshot{"negative_token", [](Snapshot& s) { s.tokens[3] = -1; }, "token"},
        BadSnapshot{"computed_more", [](Snapshot& s) { s.computed = 11; }, "11 of 10"},
        BadSnapshot{"computed_negative", [](Snapshot& s) { s.computed = -1; }, "-1 of"},
        BadSnapshot{"computed_without_state",
                    [](Snapshot& s) {
                      s.entries.clear();
                      s.state.clear();
                    },
                    "there is no state"},
        BadSnapshot{"rows", [](Snapshot& s) { s.entries[2].rows = 3; },
                    "entry 'values': expected 4 rows from 4, found 3 from 4"},
        BadSnapshot{"first_row", [](Snapshot& s) { s.entries[2].first_row = 5; },
                    "found 4 from 5"},
        BadSnapshot{"rows_of_fixed", [](Snapshot& s) { s.entries[1].rows = 1; },
                    "'sums'"},
        BadSnapshot{"capacity_of_fixed", [](Snapshot& s) { s.entries[1].capacity = 1; },
                    "no capacity"},
        BadSnapshot{"append_beyond",
                    [](Snapshot& s) {
                      for (const int e : {0, 2}) s.entries[e].growth = Growth::kAppend;
                    },
                    "its capacity is 4"},
        BadSnapshot{"two_growths",
                    [](Snapshot& s) { s.entries[2].growth = Growth::kAppend; },
                    "share growth"},
        BadSnapshot{"size_0", [](Snapshot& s) { s.entries[0].shape[0] = 0; },
                    "positive"},
        BadSnapshot{"overflow",
                    [](Snapshot& s) {
                      s.entries[0].shape = {1ll << 40, 1ll << 40};
                    },
                    "too large"},
        BadSnapshot{"rank", [](Snapshot& s) { s.entries[0].shape.assign(9, 1); },
                    "more than 8"},
        BadSnapshot{"name_twice", [](Snapshot& s) { s.entries[2].name = "keys"; },
                    "twice"},
        BadSnapshot{"no_name", [](Snapshot& s) { s.entries[2].name = ""; }, "no name"},
        BadSnapshot{"state_short", [](Snapshot& s) { s.state.pop_back(); },
                    "the entries have 45 numbers, the state 44"},
        BadSnapshot{"infinite", [](Snapshot& s) { s.state.back() = -kInfinity; },
                    "not finite"},
        BadSnapshot{"nan", [](Snapshot& s) { s.state[0] = std::nanf(""); },
                    "not finite"}),
    [](const auto& param) { return std::string(param.param.what); });

TEST(Snapshot, OfTooManyEntriesIsRefused) {
  Snapshot snapshot;
  for (int e = 0; e < 4096; ++e) {
    snapshot.entries.push_back({.name = "e" + std::to_string(e)});
  }
  snapshot.state.assign(4096, 1.0f);
  CheckRoundTrip(snapshot);
  for (SnapshotEntry& entry : snapshot.entries) entry.name.resize(256, '"');
  for (int e = 0; e < 4096; ++e) {
    snapshot.entries[e].name.replace(0, 4, std::to_string(1000 + e));
  }
  const auto bytes = EncodeSnapshot(snapshot);
  EXPECT_EQ(GetErrorDetail(bytes.status())->reason, "SNAPSHOT_TOO_LARGE");
  snapshot.entries.push_back({.name = "more"});
  EXPECT_THAT(EncodeSnapshot(snapshot).status().message(), HasSubstr("4097 entries"));
}

}  // namespace
}  // namespace mnemon
