// SPDX-License-Identifier: MIT
// Snapshots as they were written when the format was new: every later program reads
// them.
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/snapshots/snapshot.h"
#include "tests/server/snapshots/sample_snapshots.h"

namespace mnemon {
namespace {

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 2 <= hex.size(); i += 2) {
    bytes.push_back(
        static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

// One entry of each kind that can be together; no compressed block, whose bytes may
// depend on the version of libzstd.
Snapshot Ring() {
  return {{.model_id = "m",
           .numerics_id = "n",
           .architecture = "transformer_xl",
           .spec_hash = "s",
           .session = R"({"ttl":"60s"})",
           .computed = 3,
           .entries = {{.name = "mem",
                        .shape = {2},
                        .growth = Growth::kRing,
                        .capacity = 2,
                        .first_row = 1,
                        .rows = 2},
                       {.name = "sum", .shape = {1, 2}}}},
          /*tokens=*/{7, 0, 2147483647, 65},
          /*state=*/{0.5f, -0.0f, 1e-45f, 3.4028235e38f, 1.0f, -2.0f}};
}

Snapshot Compressed() {
  Snapshot snapshot = Ring();
  snapshot.architecture = "causal";
  snapshot.tokens.assign(64, 65);
  snapshot.computed = 4;
  snapshot.entries = {{.name = "keys",
                       .shape = {16},
                       .growth = Growth::kAppend,
                       .capacity = 8,
                       .rows = 4}};
  snapshot.state.assign(64, 0.25f);
  return snapshot;
}

constexpr std::string_view kRing =
    "4d4e454d534e415001000000a50100000200000000000000cd010000000000000000000000000000"
    "100000001000000051a918d07b9406ea27d3a9fa83e1599301000000000000001800000018000000"
    "8b7f01887bff4b09891fa43477a265297b22617263686974656374757265223a227472616e73666f"
    "726d65725f786c222c22636f6d7075746564223a332c22656e7472696573223a5b7b226361706163"
    "697479223a322c2266697273745f726f77223a312c2267726f777468223a2272696e67222c226e61"
    "6d65223a226d656d222c22726f7773223a322c227368617065223a5b325d7d2c7b22636170616369"
    "7479223a302c2266697273745f726f77223a302c2267726f777468223a226669786564222c226e61"
    "6d65223a2273756d222c22726f7773223a302c227368617065223a5b312c325d7d5d2c226d6f6465"
    "6c5f6964223a226d222c226e756d65726963735f6964223a226e222c2273657373696f6e223a227b"
    "5c2274746c5c223a5c223630735c227d222c22737065635f68617368223a2273222c22746f6b656e"
    "73223a347d2340603ebd25d4e07201a3569b54dbf20700000000000000ffffff7f41000000000000"
    "3f0000008001000000ffff7f7f0000803f000000c0";

constexpr std::string_view kCompressed =
    "4d4e454d534e4150010000005001000002000000000000007a010000000000000000000001000000"
    "1500000000010000e4d56faf49fae90cd45969f81138c67801000000010000001500000000010000"
    "35478c3bceb8ce85bace88c5abcce95e7b22617263686974656374757265223a2263617573616c22"
    "2c22636f6d7075746564223a342c22656e7472696573223a5b7b226361706163697479223a382c22"
    "66697273745f726f77223a302c2267726f777468223a22617070656e64222c226e616d65223a226b"
    "657973222c22726f7773223a342c227368617065223a5b31365d7d5d2c226d6f64656c5f6964223a"
    "226d222c226e756d65726963735f6964223a226e222c2273657373696f6e223a227b5c2274746c5c"
    "223a5c223630735c227d222c22737065635f68617368223a2273222c22746f6b656e73223a36347d"
    "db59b32ab971fa64156605afcfcffb8228b52ffd6000005d000020410000000100f929470428b52f"
    "fd6000005d0000200000803e0100f9294704";

TEST(SnapshotGolden, IsReadAndWrittenAsItWas) {
  const auto decoded = DecodeSnapshot(FromHex(kRing), kWideLimits);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Ring());
  EXPECT_EQ(ToHex(*EncodeSnapshot(*decoded)), kRing);
}

TEST(SnapshotGolden, WithCompressedBlocksIsReadAsItWas) {
  const auto decoded = DecodeSnapshot(FromHex(kCompressed), kWideLimits);
  ASSERT_TRUE(decoded.ok()) << decoded.status() << ToHex(*EncodeSnapshot(Compressed()));
  EXPECT_EQ(*decoded, Compressed());
}

}  // namespace
}  // namespace mnemon
