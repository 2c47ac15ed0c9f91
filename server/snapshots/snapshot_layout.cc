// SPDX-License-Identifier: MIT
#include "server/snapshots/snapshot_layout.h"

#include <cstring>

#include "base/error.h"
#include "base/strings.h"
#include "xxhash.h"

namespace mnemon {

SnapshotChecksum ChecksumOf(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  SnapshotChecksum checksum;
  static_assert(sizeof(checksum) == sizeof(canonical));
  std::memcpy(checksum.data(), canonical.digest, sizeof(checksum));
  return checksum;
}

absl::Status DamagedSnapshot(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, StrCat("snapshot is damaged: ", what),
                   {.reason = "SNAPSHOT_DAMAGED"});
}

absl::Status TooLargeSnapshot(std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("snapshot is too large: ", what),
                   {.reason = "SNAPSHOT_TOO_LARGE"});
}

}  // namespace mnemon
