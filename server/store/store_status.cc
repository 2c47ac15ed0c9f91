// SPDX-License-Identifier: MIT
// RocksDB keeps of errno only ENOSPC apart; the others are known by the text that it
// ends its message with, strerror's.
#include "server/store/store_status.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/out_of_memory.h"

namespace mnemon {
namespace {

bool HasErrno(const std::string& text, std::initializer_list<int> errors) {
  return std::ranges::any_of(errors, [&](int error) {
    return text.find(std::system_category().message(error)) != text.npos;
  });
}

}  // namespace

absl::Status StoreStatus(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  LogEvent(LogLevel::kError, "store_error", {{"detail", text}});
  if (status.IsCorruption()) {
    return StoreDamaged("the session store is damaged");
  }
  if (status.IsMemoryLimit()) return OutOfMemoryError("the session store");
  if (status.IsNoSpace() || HasErrno(text, {ENOSPC, EDQUOT, EFBIG})) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "the session store has no room on its disk",
                     {.reason = "STORE_FULL"});
  }
  if (HasErrno(text, {EROFS})) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "the session store's file system is read-only",
                     {.reason = "STORE_READ_ONLY"});
  }
  return MakeError(absl::StatusCode::kUnavailable,
                   "the session store's disk has failed", {.reason = "STORE_FAILED"});
}

absl::Status StoreDamaged(std::string message) {
  return MakeError(absl::StatusCode::kDataLoss, std::move(message),
                   {.reason = "STORE_DAMAGED"});
}

bool IsDamage(const rocksdb::Status& status) {
  return status.IsCorruption() || status.IsPathNotFound() || status.IsNotSupported() ||
         (status.IsIOError() && !HasErrno(status.ToString(), {EMFILE, ENFILE, ENOMEM}));
}

}  // namespace mnemon
