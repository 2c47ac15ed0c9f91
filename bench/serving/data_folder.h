// SPDX-License-Identifier: MIT
// A data directory for a server, initially empty, removed with its owner.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace mnemon::serving {

class DataFolder {
 public:
  explicit DataFolder(std::string path);
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::string& path() const { return path_; }
  // Bytes of all its files on the disk.
  int64_t bytes() const;
  // Drops the kernel's cache of its files. REQUIRES: no server runs on it.
  absl::Status DropFileCache() const;

 private:
  const std::string path_;
};

}  // namespace mnemon::serving
