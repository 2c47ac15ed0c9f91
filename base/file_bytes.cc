// SPDX-License-Identifier: MIT
#include "base/file_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace mnemon {

FileBytes::FileBytes(int fd, int64_t size) { Map(fd, size); }

FileBytes::FileBytes(std::string_view bytes) {
  Map(-1, static_cast<int64_t>(bytes.size()));
  std::copy(bytes.begin(), bytes.end(), data_);
}

void FileBytes::Map(int fd, int64_t size) {
  if (size == 0) return;
  const int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
  const int access = PROT_READ | (fd < 0 ? PROT_WRITE : 0);
  void* const mapped = ::mmap(nullptr, static_cast<size_t>(size), access, flags, fd, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<char*>(mapped);
  size_ = size;
}

FileBytes::~FileBytes() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(size_));
}

void FileBytes::Release(std::string_view part) const {
  static const auto kPage = static_cast<int64_t>(::sysconf(_SC_PAGE_SIZE));
  const int64_t begin = (part.data() - data_ + kPage - 1) / kPage * kPage;
  const int64_t end =
      (part.data() - data_ + static_cast<int64_t>(part.size())) / kPage * kPage;
  if (begin >= end) return;
  ::madvise(data_ + begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
}

}  // namespace mnemon
