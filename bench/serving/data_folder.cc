// SPDX-License-Identifier: MIT
#include "bench/serving/data_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/strings.h"

namespace mnemon::serving {

namespace fs = std::filesystem;

DataFolder::DataFolder(std::string path) : path_(std::move(path)) {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

DataFolder::~DataFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

int64_t DataFolder::bytes() const {
  int64_t sum = 0;
  std::error_code gone;  // a server may remove a file meanwhile
  for (fs::recursive_directory_iterator at(path_, gone), end; !gone && at != end;
       at.increment(gone)) {
    std::error_code failed;
    const auto size = at->is_regular_file(failed) ? at->file_size(failed) : 0;
    if (!failed) sum += static_cast<int64_t>(size);
  }
  return sum;
}

absl::Status DataFolder::DropFileCache() const {
  // Only pages that are on the disk can be dropped.
  sync();
  std::error_code gone;
  for (fs::recursive_directory_iterator at(path_, gone), end; !gone && at != end;
       at.increment(gone)) {
    if (!at->is_regular_file()) continue;
    const int file = open(at->path().c_str(), O_RDONLY | O_CLOEXEC);
    const bool dropped =
        file >= 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
    if (file >= 0) close(file);
    if (!dropped) {
      return absl::InternalError(
          StrCat("cannot drop ", at->path().string(), " from the file cache"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mnemon::serving
