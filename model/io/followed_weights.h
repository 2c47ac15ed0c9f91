// SPDX-License-Identifier: MIT
// A file of weights that is hashed and scanned while it is read, once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "base/file_bytes.h"
#include "model/io/safetensors.h"
#include "model/io/weight_scan.h"

namespace mnemon {

// A copy is the same file.
class FollowedWeights {
 public:
  // Of which nothing has been read yet. RESOURCE_EXHAUSTED.
  static absl::StatusOr<FollowedWeights> Open(LargeFile file);

  // Waits for the header and has the rest read in the background; the errors of
  // Safetensors::FromBytes. Called once.
  absl::StatusOr<Safetensors> Start();
  // Waits for all bytes; the errors of FileBytes::Finish.
  absl::StatusOr<std::string> Sha256Hex() const;
  // REQUIRES: Start and Sha256Hex gave OK.
  const std::vector<BadWeight>& bad_weights() const;

 private:
  struct State;
  FollowedWeights(std::shared_ptr<State> state, std::shared_ptr<FileBytes> bytes);

  std::shared_ptr<State> state_;
  std::shared_ptr<FileBytes> bytes_;
};

}  // namespace mnemon
