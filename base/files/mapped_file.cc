// SPDX-License-Identifier: MIT
#include "base/files/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  MNEMON_ASSIGN_OR_RETURN(LargeFile file,
                          LargeFile::Open(path, std::numeric_limits<int64_t>::max()));
  if (file.size() == 0) return MappedFile(std::move(file), nullptr);
  void* const data = ::mmap(nullptr, static_cast<size_t>(file.size()), PROT_READ,
                            MAP_SHARED, file.fd(), 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(StrCat("cannot map the ", file.size(),
                                               " bytes of ", Quoted(path), ": ",
                                               std::system_category().message(errno)));
  }
  return MappedFile(std::move(file), static_cast<const char*>(data));
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  ::munmap(const_cast<char*>(data_), static_cast<size_t>(file_.size()));
}

void ReadAhead(std::string_view bytes) {
  static const auto kPage = static_cast<uintptr_t>(::sysconf(_SC_PAGE_SIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t page = begin / kPage * kPage;
  ::madvise(reinterpret_cast<void*>(page), begin - page + bytes.size(), MADV_WILLNEED);
}

}  // namespace mnemon
