// SPDX-License-Identifier: MIT
// A memory-mapped regular file: pages are read when touched, and the system may drop
// them at any time. For files larger than memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/files/file.h"

namespace mnemon {

// Safe for concurrent use. Writes by other processes are visible, so bytes must be
// checked where they are used; if the file is truncated, reading the missing pages
// kills this process.
class MappedFile {
 public:
  // INVALID_ARGUMENT, NOT_FOUND and PERMISSION_DENIED as in ReadFile; `path` may be a
  // link. RESOURCE_EXHAUSTED if the system has no addresses.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)) {}
  MappedFile& operator=(MappedFile&&) = delete;

  // The whole file, page-aligned.
  std::string_view view() const { return {data_, static_cast<size_t>(file_.size())}; }
  const std::string& path() const { return file_.path(); }
  // DATA_LOSS if it changed since it was opened.
  absl::Status CheckUnchanged() const { return file_.CheckUnchanged(); }

 private:
  MappedFile(LargeFile file, const char* data) : file_(std::move(file)), data_(data) {}

  LargeFile file_;
  const char* data_;  // null: empty
};

// Asks the system to read the pages of `bytes` soon. A hint, for memory of any kind.
void ReadAhead(std::string_view bytes);

}  // namespace mnemon
