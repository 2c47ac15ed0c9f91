// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

int64_t MostGroups(const std::vector<KeyRange>& key_ranges) {
  int64_t most = 0;
  for (const KeyRange& range : key_ranges) most = std::max(most, KeyGroups(range));
  return most;
}

struct AttendOptions {
  int64_t heads = 2, sharing = 1, width = 16;
  bool relative = false, fold = false, slopes = false;
  bool capped = false, gated = false;
};

// Keys and values of one session; what no query may see is not a number.
class Session {
 public:
  Session(const AttendOptions& options, int64_t positions, uint32_t seed = 1)
      : options_(options) {
    const int64_t row = options.heads / options.sharing * options.width;
    value_offset_ = row * kBlockPositions;
    fold_offset_ = 2 * value_offset_;
    const int64_t block_floats = fold_offset_ + options.heads * kBlockPositions;
    for (int64_t first = 0; first < positions; first += kBlockPositions) {
      auto& block = blocks_.emplace_back(
          Drawn(block_floats, static_cast<uint32_t>(first) + seed, /*size=*/3.0f));
      for (int64_t slot = positions - first; slot < kBlockPositions; ++slot) {
        for (int64_t i = 0; i < row; ++i) {
          block[i * kBlockPositions + slot] = kNotANumber;
          const int64_t head = i / options.width, in_head = i % options.width;
          block[value_offset_ + (head * kBlockPositions + slot) * options.width +
                in_head] = kNotANumber;
        }
        for (int64_t h = 0; h < options.heads; ++h) {
          block[fold_offset_ + h * kBlockPositions + slot] = kNotANumber;
        }
      }
    }
    for (const auto& block : blocks_) pointers_.push_back(block.data());
    table_rows_ = positions + 1;
    const int64_t margin = kBlockPositions;
    tables_ = Drawn(options.heads * options.width * table_rows_ + 2 * margin, 77);
    biases_ = Drawn(options.heads * table_rows_ + 2 * margin, 78);
    slopes_ = Drawn(options.heads, 79, 0.05f);
  }

  void SetKeys(float key) {
    for (auto& block : blocks_) std::fill_n(block.begin(), value_offset_, key);
  }

  // Blocks before `from_block` are gone.
  KeyRange See(int64_t first, int64_t last, int64_t from_block = 0) const {
    return {.blocks = pointers_.data() + from_block,
            .base = from_block,
            .first = first,
            .last = last,
            .query = last};
  }

  std::vector<float> Attend(const CpuOperations& operations,
                            const std::vector<KeyRange>& key_ranges,
                            uint32_t first_query, int workers = 1) const {
    const auto rows = static_cast<int64_t>(key_ranges.size());
    const int64_t row = options_.heads * options_.width;
    const int64_t padded = Padded(options_.width);
    const int64_t group = (options_.gated ? 2 : 1) * options_.sharing * padded;
    const int64_t query_row = options_.heads / options_.sharing * group;
    std::vector<float> queries;
    for (int64_t r = 0; r < rows; ++r) {
      const auto query = Drawn(query_row, first_query + static_cast<uint32_t>(r));
      queries.insert(queries.end(), query.begin(), query.end());
    }
    std::vector<float> out(rows * row, kNotANumber);
    AttendCall call = {.rows = rows,
                       .heads = options_.heads,
                       .sharing = options_.sharing,
                       .width = options_.width,
                       .scale = 1 / std::sqrt(static_cast<float>(options_.width)),
                       .query = {queries.data(), query_row},
                       .group_stride = group,
                       .gate_offset = options_.gated ? options_.sharing * padded : 0,
                       .out = {out.data(), row},
                       .key_ranges = key_ranges.data(),
                       .groups = MostGroups(key_ranges),
                       .key_offset = 0,
                       .value_offset = value_offset_};
    if (options_.fold) call.fold_offset = fold_offset_;
    if (options_.capped) call.cap = 1.5f;
    if (options_.slopes) call.slopes = slopes_.data();
    if (options_.relative) {
      call.relative_key = tables_.data() + kBlockPositions;
      call.relative_bias = biases_.data() + kBlockPositions;
      call.table_rows = table_rows_;
      call.zero_row = table_rows_ - 1;
    }
    std::vector<float> scratch(ScratchFloats(call));
    for (int w = 0; w < workers; ++w) {
      operations.attend(call, {w, workers}, scratch.data());
    }
    return out;
  }

 private:
  const AttendOptions options_;
  int64_t value_offset_, fold_offset_, table_rows_;
  std::vector<std::vector<float>> blocks_;
  std::vector<const float*> pointers_;
  std::vector<float> tables_, biases_, slopes_;
};

std::vector<AttendOptions> AllAttendOptions() {
  std::vector<AttendOptions> all;
  constexpr AttendOptions kShapes[] = {{1, 1, 1},  {2, 1, 4},   {4, 1, 16}, {3, 1, 20},
                                       {2, 1, 32}, {1, 1, 40},  {2, 1, 64}, {4, 2, 16},
                                       {6, 3, 20}, {1, 1, 128}, {2, 2, 64}};
  for (AttendOptions one : kShapes) {
    for (int bits = 0; bits < 8; ++bits) {
      one.relative = (bits & 1) != 0;
      one.fold = (bits & 2) != 0;
      one.slopes = (bits & 4) != 0;
      if (one.sharing > 1 && (bits & 3) != 0) continue;  // those have keys of their own
      all.push_back(one);
    }
    one.relative = one.fold = one.slopes = false;
    one.capped = one.width != 16;
    one.gated = one.width != 20;
    all.push_back(one);
  }
  return all;
}

using AttendTest = TargetTest;

TEST_P(AttendTest, AgreesWithTheReference) {
  for (const AttendOptions& options : AllAttendOptions()) {
    // Around the borders of blocks and of groups of blocks.
    for (const int64_t positions : {1, 15, 16, 17, 70, 512, 513, 1100}) {
      const Session session(options, positions);
      const std::vector<KeyRange> key_ranges = {
          session.See(0, positions - 1), session.See(positions / 2, positions - 1),
          session.See(0, positions / 3)};
      const std::vector<float> found = session.Attend(target(), key_ranges, 5);
      EXPECT_LE(Difference(found, session.Attend(reference(), key_ranges, 5)), 1e-5)
          << positions << " positions, width " << options.width;
      EXPECT_EQ(found, session.Attend(best(), key_ranges, 5))
          << positions << " positions, width " << options.width;
    }
  }
}

TEST_P(AttendTest, ARowHasItsBitsWhateverTheRowsTheWorkersAndTheBlocksThatAreGone) {
  for (const AttendOptions& options : AllAttendOptions()) {
    constexpr int64_t kPositions = 600;
    const Session session(options, kPositions);
    std::vector<KeyRange> key_ranges;
    for (int64_t r = 0; r < 9; ++r)
      key_ranges.push_back(session.See(40 * r, 100 + 60 * r));
    const std::vector<float> all = session.Attend(target(), key_ranges, 1);
    for (const int workers : {3, 7}) {
      ASSERT_EQ(session.Attend(target(), key_ranges, 1, workers), all);
    }
    const int64_t row = options.heads * options.width;
    for (int64_t r = 0; r < 9; ++r) {
      const int64_t gone = 40 * r / kBlockPositions;
      ASSERT_EQ(session.Attend(target(), {session.See(40 * r, 100 + 60 * r, gone)},
                               static_cast<uint32_t>(1 + r), 2),
                std::vector<float>(all.begin() + r * row, all.begin() + (r + 1) * row));
    }
  }
}

// Rows of one session may share what they read; of others they must not.
TEST_P(AttendTest, RowsOfSeveralSessionsSeeTheirOwn) {
  for (const AttendOptions& options : AllAttendOptions()) {
    const Session one(options, 140), other(options, 100, /*seed=*/1000);
    std::vector<KeyRange> key_ranges;
    for (const int64_t count : emulated() ? std::vector<int64_t>{3, 9}
                                          : std::vector<int64_t>{1, 2, 3, 4, 5, 9}) {
      for (int64_t r = 0; r < count; ++r) key_ranges.push_back(one.See(7 * r, 120 + r));
      for (int64_t r = 0; r < count; ++r) key_ranges.push_back(other.See(r, 80 + r));
    }
    key_ranges.push_back(other.See(0, -1));  // sees nothing, between others
    key_ranges.push_back(other.See(0, 0));
    // All calls are made with the queries and tables of `one`.
    const std::vector<float> all = one.Attend(target(), key_ranges, 1, 3);
    const int64_t row = options.heads * options.width;
    for (size_t r = 0; r < key_ranges.size(); ++r) {
      const auto alone = all.begin() + static_cast<int64_t>(r) * row;
      ASSERT_EQ(one.Attend(target(), {key_ranges[r]}, static_cast<uint32_t>(1 + r)),
                std::vector<float>(alone, alone + row))
          << "row " << r << " of width " << options.width;
    }
  }
}

// Few and many of the groups that are computed apart, beside rows without any.
TEST_P(AttendTest, RowsOfManyGroupsBesideOthers) {
  for (const AttendOptions& options : AllAttendOptions()) {
    if (options.width < 16 || (emulated() && options.heads * options.width > 60))
      continue;
    constexpr int64_t kPositions = 3000;
    const Session session(options, kPositions);
    const std::vector<KeyRange> key_ranges = {
        session.See(0, -1),   session.See(0, kPositions - 1),
        session.See(3, 5),    session.See(511, 512),
        session.See(0, -1),   session.See(700, kPositions - 20, 40),
        session.See(0, 1023), session.See(0, -1)};
    const std::vector<float> expected = session.Attend(best(), key_ranges, 1);
    for (const int workers : {1, 2, 5}) {
      ASSERT_EQ(session.Attend(target(), key_ranges, 1, workers), expected)
          << "width " << options.width;
    }
  }
}

// Rows of two groups with a block each, which come at about the same time.
TEST_P(AttendTest, GroupsWaitForEachOther) {
  const AttendOptions options{.heads = 1, .width = 64};
  const Session session(options, 513);
  const std::vector<KeyRange> key_ranges(40, session.See(511, 512));
  const std::vector<float> expected = session.Attend(best(), key_ranges, 1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(session.Attend(target(), key_ranges, 1), expected);
  }
}

// As in the sequence form: what overflows is not taken for a number.
TEST_P(AttendTest, WhatIsNotANumberStaysSo) {
  for (const float key : {kNotANumber, HUGE_VALF, -HUGE_VALF}) {
    Session session({}, 20);
    session.SetKeys(key);
    for (const float value : session.Attend(target(), {session.See(0, 19)}, 1)) {
      EXPECT_TRUE(std::isnan(value)) << key;
    }
  }
}

TEST_P(AttendTest, NothingSeenIsZero) {
  const Session session({}, 20);
  EXPECT_EQ(session.Attend(target(), {session.See(0, -1)}, 1),
            std::vector<float>(32, 0.0f));
}

INSTANTIATE_TEST_SUITE_P(Targets, AttendTest, testing::ValuesIn(TargetsUnderTest()),
                         TargetName);

}  // namespace
}  // namespace mnemon
