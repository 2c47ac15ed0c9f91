// SPDX-License-Identifier: MIT
// Bytes of any kind are refused with a message and a reason, or are a snapshot that
// encodes to bytes which decode to the same. Each input is tried as it is, and with
// checksums that are right.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "server/snapshots/snapshot.h"
#include "tests/server/snapshots/mend_checksums.h"

namespace mnemon {
namespace {

constexpr SnapshotLimits kLimits{.tokens = 1 << 20, .state_bytes = 16 << 20};

void Try(const std::string& bytes) {
  const auto header = ReadSnapshotHeader(bytes);
  const auto snapshot = DecodeSnapshot(bytes, kLimits);
  if (!snapshot.ok()) {
    MNEMON_CHECK(!snapshot.status().message().empty());
    MNEMON_CHECK(GetErrorDetail(snapshot.status()).has_value());
    return;
  }
  MNEMON_CHECK(header.ok());
  MNEMON_CHECK(header->bytes == static_cast<int64_t>(bytes.size()));
  MNEMON_CHECK(header->tokens == static_cast<int64_t>(snapshot->tokens.size()));
  MNEMON_CHECK(header->state_bytes == static_cast<int64_t>(snapshot->state.size() * 4));
  MNEMON_CHECK(header->entries == snapshot->entries);
  const auto encoded = EncodeSnapshot(*snapshot);
  MNEMON_CHECK(encoded.ok());
  const auto again = DecodeSnapshot(*encoded, kLimits);
  MNEMON_CHECK(again.ok() && *again == *snapshot);
  MNEMON_CHECK(*EncodeSnapshot(*again) == *encoded);
}

}  // namespace
}  // namespace mnemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  mnemon::Try(bytes);
  mnemon::MendChecksums(bytes);
  mnemon::Try(bytes);
  return 0;
}
