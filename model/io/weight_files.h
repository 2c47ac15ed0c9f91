// SPDX-License-Identifier: MIT
// The files that together hold a model's weights, possibly still loading.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/weights.h"
#include "model/io/safetensors.h"

namespace mnemon {

// Immutable after construction, except for what is released. A copy refers to the same
// files.
class WeightFiles {
 public:
  WeightFiles() = default;
  explicit WeightFiles(std::vector<Safetensors> files) : files_(std::move(files)) {}

  std::span<const Safetensors> files() const { return files_; }
  int64_t bytes() const;  // of all files

  // A tensor and the address of its data, which must be waited for. Null if no file has
  // it.
  struct Found {
    const TensorInfo* info = nullptr;
    const char* data = nullptr;
  };
  Found Find(std::string_view name) const;

  // Waits for all bytes. Errors of FileBytes::Finish.
  absl::Status Finish() const;
  // A stream that waits for the bytes piece by piece. Addresses elsewhere count as
  // loaded. Refers to the files, which it keeps.
  WeightStream Stream() const;

 private:
  std::vector<Safetensors> files_;
};

}  // namespace mnemon
