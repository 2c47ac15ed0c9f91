// SPDX-License-Identifier: MIT
// RocksDB keeps of errno only ENOSPC apart; the others are known by the text that it
// ends its message with, strerror's.
#include "server/store/store_status.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/out_of_memory.h"

namespace mnemon {
namespace {

bool HasErrno(const std::string& text, int error) {
  return text.find(std::system_category().message(error)) != text.npos;
}

}  // namespace

absl::Status StoreStatus(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  LogEvent(LogLevel::kError, "store_error", {{"detail", text}});
  if (status.IsCorruption()) {
    return MakeError(absl::StatusCode::kDataLoss, "the session store is damaged",
                     {.reason = "STORE_DAMAGED"});
  }
  if (status.IsMemoryLimit()) return OutOfMemoryError("the session store");
  if (status.IsNoSpace() || HasErrno(text, ENOSPC) || HasErrno(text, EDQUOT) ||
      HasErrno(text, EFBIG)) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "the session store has no room on its disk",
                     {.reason = "STORE_FULL"});
  }
  if (HasErrno(text, EROFS)) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "the session store's file system is read-only",
                     {.reason = "STORE_READ_ONLY"});
  }
  return MakeError(absl::StatusCode::kUnavailable,
                   "the session store's disk has failed", {.reason = "STORE_FAILED"});
}

bool LackedResources(const rocksdb::Status& status) {
  const std::string text = status.ok() ? std::string() : status.ToString();
  return HasErrno(text, EMFILE) || HasErrno(text, ENFILE) || HasErrno(text, ENOMEM);
}

}  // namespace mnemon
