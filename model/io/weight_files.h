// SPDX-License-Identifier: MIT
// The files that hold a model's weights together, perhaps still being read.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/weights.h"
#include "model/io/safetensors.h"

namespace mnemon {

// Constant after construction, but for what is released. A copy has the same files.
class WeightFiles {
 public:
  WeightFiles() = default;
  explicit WeightFiles(std::vector<Safetensors> files) : files_(std::move(files)) {}

  std::span<const Safetensors> files() const { return files_; }
  int64_t bytes() const;  // of all files

  // A tensor, and where its data is or will be: it is to be waited for. Null when no
  // file has it.
  struct Found {
    const TensorInfo* info = nullptr;
    const char* data = nullptr;
  };
  Found Find(std::string_view name) const;

  // Waits for all bytes; the errors of FileBytes::Finish.
  absl::Status Finish() const;
  // What waits for them piece by piece. Addresses elsewhere are taken for those of
  // bytes that are there. Refers to the files, which it keeps.
  WeightStream Stream() const;

 private:
  std::vector<Safetensors> files_;
};

}  // namespace mnemon
