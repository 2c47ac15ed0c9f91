// SPDX-License-Identifier: MIT
#include "model/io/followed_weights.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "base/status_macros.h"

namespace mnemon {

struct FollowedWeights::State {
  Sha256 hash;
  std::optional<WeightScan> scan;  // from the header's end on
};

FollowedWeights::FollowedWeights(std::shared_ptr<State> state,
                                 std::shared_ptr<FileBytes> bytes)
    : state_(std::move(state)), bytes_(std::move(bytes)) {}

absl::StatusOr<FollowedWeights> FollowedWeights::Open(LargeFile file) {
  const auto state = std::make_shared<State>();
  MNEMON_ASSIGN_OR_RETURN(
      std::shared_ptr<FileBytes> bytes,
      FileBytes::Open(std::move(file), [state](std::string_view piece) {
        state->hash.Update(piece);
        if (state->scan) state->scan->Follow(piece);
      }));
  return FollowedWeights(state, std::move(bytes));
}

absl::StatusOr<Safetensors> FollowedWeights::Start() {
  MNEMON_ASSIGN_OR_RETURN(Safetensors tensors, Safetensors::FromBytes(bytes_));
  state_->scan.emplace(tensors.header());
  bytes_->Start();
  return tensors;
}

absl::StatusOr<std::string> FollowedWeights::Sha256Hex() const {
  MNEMON_RETURN_IF_ERROR(bytes_->Finish());
  return state_->hash.HexDigest();
}

const std::vector<BadWeight>& FollowedWeights::bad_weights() const {
  return state_->scan->found();
}

}  // namespace mnemon
