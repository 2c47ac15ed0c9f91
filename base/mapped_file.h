// SPDX-License-Identifier: MIT
// A regular file as memory: pages are read when they are touched, and the system may
// take them back at any time. For files beyond memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file.h"

namespace mnemon {

// Safe for concurrent use. What another process writes into the file is seen, so bytes
// are to be checked where they are used; one that cuts it short ends this process where
// the missing pages are read.
class MappedFile {
 public:
  // INVALID_ARGUMENT, NOT_FOUND and PERMISSION_DENIED as of ReadFile; `path` may be a
  // link. RESOURCE_EXHAUSTED where the system gives no addresses.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)) {}
  MappedFile& operator=(MappedFile&&) = delete;

  // The whole file, from a page's beginning on.
  std::string_view view() const { return {data_, static_cast<size_t>(file_.size())}; }
  const std::string& path() const { return file_.path(); }
  // DATA_LOSS when it changed since it was opened.
  absl::Status CheckUnchanged() const { return file_.CheckUnchanged(); }

 private:
  MappedFile(LargeFile file, const char* data) : file_(std::move(file)), data_(data) {}

  LargeFile file_;
  const char* data_;  // null: empty
};

// Asks the system to read the pages of `bytes` soon. A hint, for memory of any kind.
void ReadAhead(std::string_view bytes);

}  // namespace mnemon
