// SPDX-License-Identifier: MIT
// What is not a snapshot as it was written is refused, whether by chance or with
// checksums that are right.
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/snapshots/snapshot.h"
#include "server/snapshots/snapshot_layout.h"
#include "tests/server/snapshots/mend_checksums.h"
#include "tests/server/snapshots/sample_snapshots.h"
#include "zstd.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

// A snapshot with raw and compressed blocks.
std::string SmallSnapshot() {
  Snapshot snapshot = GrowingSnapshot(Growth::kRing, 4, 40, 30);
  snapshot.session = R"({"a":1})";
  return *EncodeSnapshot(snapshot);
}

void ExpectDamaged(std::string_view bytes, std::string_view message = "") {
  const auto decoded = DecodeSnapshot(bytes, kWideLimits);
  ASSERT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss) << decoded.status();
  EXPECT_EQ(GetErrorDetail(decoded.status())->reason, "SNAPSHOT_DAMAGED");
  EXPECT_THAT(decoded.status().message(), HasSubstr(std::string(message)));
}

SnapshotFront FrontOf(const std::string& bytes) {
  SnapshotFront front;
  std::memcpy(&front, bytes.data(), sizeof(front));
  return front;
}

BlockDescriptor BlockOf(const std::string& bytes, int block) {
  BlockDescriptor descriptor;
  std::memcpy(&descriptor, bytes.data() + sizeof(SnapshotFront) + block * 32, 32);
  return descriptor;
}

TEST(SnapshotDamage, HasBothCodecsToDamage) {
  const std::string bytes = SmallSnapshot();
  EXPECT_EQ(BlockOf(bytes, 0).codec, kZstdCodec);
  EXPECT_EQ(BlockOf(bytes, 1).codec, kRawCodec);
}

TEST(SnapshotDamage, EveryFlippedBitIsFound) {
  std::string bytes = SmallSnapshot();
  for (char& byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      byte = static_cast<char>(byte ^ (1 << bit));
      ExpectDamaged(bytes);
      if (HasFailure()) return;
      byte = static_cast<char>(byte ^ (1 << bit));
    }
  }
  EXPECT_TRUE(DecodeSnapshot(bytes, kWideLimits).ok());
}

TEST(SnapshotDamage, EveryOtherByteIsFound) {
  std::string bytes = SmallSnapshot();
  for (char& byte : bytes) {
    const char was = byte;
    for (const int other : {0x00, 0xff, static_cast<unsigned char>(was) ^ 0xff}) {
      byte = static_cast<char>(other);
      if (byte != was) ExpectDamaged(bytes);
      if (HasFailure()) return;
    }
    byte = was;
  }
}

TEST(SnapshotDamage, EveryCutIsFound) {
  const std::string bytes = SmallSnapshot();
  for (size_t length = 0; length < bytes.size(); ++length) {
    ExpectDamaged(std::string_view(bytes).substr(0, length),
                  length < FrontOf(bytes).header_bytes ? "" : "bytes, expected");
    if (HasFailure()) return;
  }
}

TEST(SnapshotDamage, WhatIsAppendedIsFound) {
  const std::string bytes = SmallSnapshot();
  for (const std::string& more :
       {std::string(1, '\0'), std::string("x"), std::string(100, '\0'), bytes}) {
    ExpectDamaged(bytes + more);
  }
}

TEST(SnapshotDamage, ExchangedBlocksAreFound) {
  const std::string bytes = *EncodeSnapshot(FixedSnapshot(0, kSnapshotBlock / 2));
  const size_t begin = FrontOf(bytes).header_bytes;
  ASSERT_EQ(bytes.size(), begin + 2 * kSnapshotBlock);
  ExpectDamaged(bytes.substr(0, begin) + bytes.substr(begin + kSnapshotBlock) +
                    bytes.substr(begin, kSnapshotBlock),
                "checksum of a block");
}

TEST(SnapshotDamage, NewerVersionNamesBothVersions) {
  std::string bytes = SmallSnapshot();
  bytes[8] = 7;
  ExpectDamaged(bytes, "checksum of the header");
  MendChecksums(bytes);
  const auto decoded = DecodeSnapshot(bytes, kWideLimits);
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(decoded.status())->reason, "SNAPSHOT_VERSION");
  EXPECT_THAT(decoded.status().message(), HasSubstr("version 7"));
  EXPECT_THAT(decoded.status().message(), HasSubstr("up to 1"));
}

// Written on purpose, with checksums that are right.
struct Hostile {
  const char* what;
  std::function<void(std::string&)> change;
  const char* message;
};

void SetFront(std::string& bytes, const std::function<void(SnapshotFront&)>& set) {
  SnapshotFront front = FrontOf(bytes);
  set(front);
  std::memcpy(bytes.data(), &front, sizeof(front));
  MendChecksums(bytes);
}

void SetBlock(std::string& bytes, int block,
              const std::function<void(BlockDescriptor&)>& set) {
  BlockDescriptor descriptor = BlockOf(bytes, block);
  set(descriptor);
  std::memcpy(bytes.data() + sizeof(SnapshotFront) + block * 32, &descriptor, 32);
  MendChecksums(bytes);
}

// `from` in the metadata becomes `to`.
void Replace(std::string& bytes, std::string_view from, std::string_view to) {
  const size_t at = bytes.find(from);
  ASSERT_NE(at, bytes.npos) << from;
  bytes.replace(at, from.size(), to);
  SetFront(bytes, [&](SnapshotFront& front) {
    front.header_bytes += static_cast<uint32_t>(to.size() - from.size());
  });
}

// The stored bytes of block 0 become `stored`.
void ReplaceTokens(std::string& bytes, std::string_view stored) {
  bytes.replace(FrontOf(bytes).header_bytes, BlockOf(bytes, 0).stored, stored);
  SetBlock(bytes, 0, [&](BlockDescriptor& block) {
    block.stored = static_cast<uint32_t>(stored.size());
  });
}

std::string Frame(const std::string& content) {
  std::string frame(ZSTD_compressBound(content.size()), '\0');
  frame.resize(
      ZSTD_compress(frame.data(), frame.size(), content.data(), content.size(), 1));
  return frame;
}

class HostileSnapshot : public testing::TestWithParam<Hostile> {};

TEST_P(HostileSnapshot, IsRefused) {
  std::string bytes = SmallSnapshot();
  GetParam().change(bytes);
  ExpectDamaged(bytes, GetParam().message);
}

const Hostile kFronts[] = {
    {"version_0", [](auto& b) { SetFront(b, [](auto& f) { f.version = 0; }); },
     "first bytes"},
    {"zero_not_0", [](auto& b) { SetFront(b, [](auto& f) { f.zero = 1; }); },
     "first bytes"},
    {"blocks_max", [](auto& b) { SetFront(b, [](auto& f) { f.blocks = UINT32_MAX; }); },
     "4294967295 blocks"},
    {"blocks_beyond_header",
     [](auto& b) { SetFront(b, [](auto& f) { f.blocks = f.header_bytes / 32; }); },
     "blocks in a header"},
    {"blocks_less", [](auto& b) { SetFront(b, [](auto& f) { f.blocks = 1; }); },
     "metadata"},
    {"blocks_0", [](auto& b) { SetFront(b, [](auto& f) { f.blocks = 0; }); },
     "metadata"},
    {"header_max",
     [](auto& b) { SetFront(b, [](auto& f) { f.header_bytes = UINT32_MAX; }); },
     "its header of 4294967295 bytes"},
    {"header_0", [](auto& b) { SetFront(b, [](auto& f) { f.header_bytes = 0; }); },
     "its header of 0 bytes"},
    {"header_48", [](auto& b) { SetFront(b, [](auto& f) { f.header_bytes = 48; }); },
     "blocks in a header of 48"},
    {"length_max",
     [](auto& b) {
       SnapshotFront front = FrontOf(b);
       front.bytes = UINT64_MAX;
       std::memcpy(b.data(), &front, sizeof(front));
       const size_t checksum_at = front.header_bytes - 16;
       const auto sum = ChecksumOf(std::string_view(b).substr(0, checksum_at));
       std::memcpy(b.data() + checksum_at, sum.data(), 16);
     },
     "there are 18446744"},
    {"metadata_huge",
     [](auto& b) {
       const size_t at = FrontOf(b).header_bytes - 16;
       b.insert(at, kMaxSnapshotMetadata, ' ');
       SetFront(b, [](auto& f) { f.header_bytes += kMaxSnapshotMetadata; });
     },
     "blocks in a header of"}};
INSTANTIATE_TEST_SUITE_P(Front, HostileSnapshot, testing::ValuesIn(kFronts),
                         [](const auto& param) { return param.param.what; });

const Hostile kBlocks[] = {
    {"section_2", [](auto& b) { SetBlock(b, 0, [](auto& d) { d.section = 2; }); },
     "section 2"},
    {"state_first", [](auto& b) { SetBlock(b, 0, [](auto& d) { d.section = 1; }); },
     "section 1"},
    {"codec_2", [](auto& b) { SetBlock(b, 0, [](auto& d) { d.codec = 2; }); },
     "codec 2"},
    {"bytes_max",
     [](auto& b) { SetBlock(b, 0, [](auto& d) { d.bytes = UINT32_MAX; }); },
     "size 4294967295"},
    {"bytes_0", [](auto& b) { SetBlock(b, 1, [](auto& d) { d.bytes = 0; }); },
     "size 0"},
    {"stored_max",
     [](auto& b) { SetBlock(b, 0, [](auto& d) { d.stored = UINT32_MAX; }); },
     "codec 1"},
    {"stored_0", [](auto& b) { SetBlock(b, 0, [](auto& d) { d.stored = 0; }); },
     "bytes, there are"},
    {"raw_but_shorter", [](auto& b) { SetBlock(b, 0, [](auto& d) { d.codec = 0; }); },
     "codec 0"},
    {"frame_of_more",  // a bomb: a few bytes that are 16 MiB
     [](auto& b) {
       ReplaceTokens(b, Frame(std::string(1 << 24, '\0')).substr(0, 100));
     },
     "zstd frame"},
    {"frame_of_one_more",
     [](auto& b) { ReplaceTokens(b, Frame(std::string(161, '\0'))); }, "zstd frame"},
    {"frame_of_less", [](auto& b) { ReplaceTokens(b, Frame(std::string(156, '\0'))); },
     "zstd frame"},
    {"two_frames",
     [](auto& b) {
       ReplaceTokens(b, Frame(std::string(160, '\0')) + Frame(std::string()));
     },
     "zstd frame"},
    {"no_frame", [](auto& b) { ReplaceTokens(b, "not a frame"); }, "zstd frame"},
    {"frame_that_lies",  // declares 160 bytes and holds 161
     [](auto& b) {
       std::string frame = Frame(std::string(161, '\0'));
       const size_t at = frame.find('\xa1');
       ASSERT_NE(at, frame.npos);
       frame[at] = '\xa0';
       ReplaceTokens(b, frame);
     },
     "zstd: "},
    {"negative_token",
     [](auto& b) { ReplaceTokens(b, Frame(std::string(160, '\xff'))); },
     "a token is negative"},
    {"not_finite",
     [](auto& b) {
       const float nan = std::numeric_limits<float>::quiet_NaN();
       std::memcpy(b.data() + b.size() - 4, &nan, 4);
       MendChecksums(b);
     },
     "not finite"}};
INSTANTIATE_TEST_SUITE_P(Block, HostileSnapshot, testing::ValuesIn(kBlocks),
                         [](const auto& param) { return param.param.what; });

const Hostile kMetadata[] = {
    {"no_json", [](auto& b) { Replace(b, "\"entries\":[", "\"entries\":"); }, "JSON"},
    {"no_object",
     [](auto& b) {
       const size_t at = 32 + 32 * FrontOf(b).blocks;
       Replace(b, b.substr(at, FrontOf(b).header_bytes - 16 - at), "17");
     },
     "expected an object"},
    {"nul", [](auto& b) { Replace(b, "fast", std::string_view("f\0st", 4)); }, "NUL"},
    {"deep", [](auto& b) { Replace(b, "\"shape\":[", "\"shape\":[[[[[1]]]],"); },
     "nested deeper"},
    {"unknown_key", [](auto& b) { Replace(b, "\"tokens\"", "\"a\":1,\"tokens\""); },
     "unknown key 'a'"},
    {"unknown_key_of_entry",
     [](auto& b) { Replace(b, "\"rows\"", "\"a\":1,\"rows\""); }, "unknown key 'a'"},
    {"missing_key", [](auto& b) { Replace(b, ",\"tokens\":40", ""); },
     "missing key 'tokens'"},
    {"duplicate_key",
     [](auto& b) { Replace(b, "\"tokens\"", "\"tokens\":40,\"tokens\""); },
     "duplicate key"},
    {"negative_number", [](auto& b) { Replace(b, "\"rows\":4", "\"rows\":-4"); },
     "'rows' must hold integers"},
    {"fraction", [](auto& b) { Replace(b, "\"tokens\":40", "\"tokens\":40.0"); },
     "'tokens' must hold integers"},
    {"number_2_63",
     [](auto& b) { Replace(b, "\"tokens\":40", "\"tokens\":9223372036854775808"); },
     "'tokens' must hold integers"},
    {"tokens_overflow",
     [](auto& b) { Replace(b, "\"tokens\":40", "\"tokens\":9223372036854775807"); },
     "9223372036854775807 tokens"},
    {"tokens_more", [](auto& b) { Replace(b, "\"tokens\":40", "\"tokens\":41"); },
     "size 160"},
    {"tokens_2_40",
     [](auto& b) { Replace(b, "\"tokens\":40", "\"tokens\":1099511627776"); },
     "blocks"},
    {"computed_more", [](auto& b) { Replace(b, "\"computed\":30", "\"computed\":41"); },
     "41 of 40"},
    {"computed_other",
     [](auto& b) { Replace(b, "\"computed\":30", "\"computed\":31"); },
     "expected 4 rows from 27"},
    {"shape_0", [](auto& b) { Replace(b, "[2,3]", "[2,0]"); }, "positive"},
    {"shape_overflows", [](auto& b) { Replace(b, "[2,3]", "[4294967296,4294967296]"); },
     "too large"},
    {"shape_wraps_to_right_size",
     [](auto& b) { Replace(b, "[2,3]", "[2,3,9223372036854775807,3]"); }, "too large"},
    {"shape_larger", [](auto& b) { Replace(b, "[2,3]", "[2,4]"); }, "size 180"},
    {"shape_of_text", [](auto& b) { Replace(b, "[2,3]", "[2,\"3\"]"); },
     "'shape' must hold integers"},
    {"shape_of_no_array", [](auto& b) { Replace(b, "[2,3]", "6"); },
     "'shape' must be an array"},
    {"capacity_max",
     [](auto& b) { Replace(b, "\"capacity\":4", "\"capacity\":9223372036854775807"); },
     "too large"},
    {"growth_unknown", [](auto& b) { Replace(b, "\"ring\"", "\"tree\""); },
     "fixed, ring or append"},
    {"name_with_escape", [](auto& b) { Replace(b, "\"keys\"", "\"k\\u0000\""); },
     "printable ASCII"},
    {"entry_no_object", [](auto& b) { Replace(b, "\"entries\":[", "\"entries\":[1,"); },
     "expected an object"},
    {"session_no_text", [](auto& b) { Replace(b, "\"{\\\"a\\\":1}\"", "{}"); },
     "'session' must be a string"},
    {"session_no_json", [](auto& b) { Replace(b, "\"{\\\"a\\\":1}\"", "\"{\""); },
     "session is not valid JSON"}};
INSTANTIATE_TEST_SUITE_P(Metadata, HostileSnapshot, testing::ValuesIn(kMetadata),
                         [](const auto& param) { return param.param.what; });

TEST(SnapshotDamage, AnyChangeWithRightChecksumsIsRefusedOrConsistent) {
  const std::string whole = SmallSnapshot();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      MendChecksums(bytes);
      const auto decoded = DecodeSnapshot(bytes, kWideLimits);
      if (!decoded.ok()) continue;
      const auto again = EncodeSnapshot(*decoded);
      ASSERT_TRUE(again.ok()) << at << ": " << again.status();
      EXPECT_EQ(*DecodeSnapshot(*again, kWideLimits), *decoded) << at;
    }
  }
}

}  // namespace
}  // namespace mnemon
