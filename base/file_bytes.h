// SPDX-License-Identifier: MIT
// The bytes of a large file in pages of their own, which can be given back to the
// system part by part.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace mnemon {

class FileBytes {
 public:
  FileBytes() = default;
  // The first `size` bytes of an open file, which must stay that long: where it is cut
  // short meanwhile, reading them ends the process. Throws std::bad_alloc.
  FileBytes(int fd, int64_t size);
  // A copy. Throws std::bad_alloc.
  explicit FileBytes(std::string_view bytes);
  ~FileBytes();
  FileBytes(FileBytes&& other) noexcept { swap(other); }
  FileBytes& operator=(FileBytes&& other) noexcept {
    swap(other);
    return *this;
  }

  std::string_view view() const { return {data_, static_cast<size_t>(size_)}; }

  // Gives the whole pages of `part`, which lies in view(), back to the system: the
  // process no longer holds them, and they must not be read any more. Safe for
  // concurrent calls.
  void Release(std::string_view part) const;

 private:
  void Map(int fd, int64_t size);
  void swap(FileBytes& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  char* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace mnemon
