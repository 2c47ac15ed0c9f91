// SPDX-License-Identifier: MIT
// A file of weights that is read once, and hashed and scanned on the way.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/files/file.h"
#include "base/files/file_bytes.h"
#include "model/io/checkpoint.h"
#include "model/io/safetensors.h"
#include "model/io/weight_scan.h"

namespace mnemon {

// A copy refers to the same file.
class FollowedWeights {
 public:
  // Reads nothing yet. RESOURCE_EXHAUSTED.
  static absl::StatusOr<FollowedWeights> Open(LargeFile file);
  static absl::StatusOr<FollowedWeights> Open(MadeFile file);

  // Waits for the header and has the rest read in the background. Called once. Errors
  // of Safetensors::FromBytes.
  absl::StatusOr<Safetensors> Start();
  // Waits for all bytes. Errors of FileBytes::Finish.
  absl::StatusOr<std::string> Sha256Hex() const;
  // REQUIRES: Start and Sha256Hex returned OK.
  const std::vector<BadWeight>& bad_weights() const;

 private:
  struct State;
  template <class File>
  static absl::StatusOr<FollowedWeights> Follow(File file);
  FollowedWeights(std::shared_ptr<State> state, std::shared_ptr<FileBytes> bytes);

  std::shared_ptr<State> state_;
  std::shared_ptr<FileBytes> bytes_;
};

// Files of a model of another project; their names are part of its model_id.
struct FollowedFile {
  std::string name;
  FollowedWeights weights;
};
// CheckpointFiles::verified for `files`, which were started, with the contents of
// config.json and tokenizer.json, empty if absent. `shown`: their directory, for
// messages.
std::future<absl::StatusOr<VerifiedWeights>> VerifyLater(
    std::string shown, std::vector<FollowedFile> files, std::string_view config,
    std::string_view tokenizer);

}  // namespace mnemon
