// SPDX-License-Identifier: MIT
#include "model/io/followed_weights.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {

struct FollowedWeights::State {
  Sha256 hash;
  std::optional<WeightScan> scan;  // from the end of the header on
};

FollowedWeights::FollowedWeights(std::shared_ptr<State> state,
                                 std::shared_ptr<FileBytes> bytes)
    : state_(std::move(state)), bytes_(std::move(bytes)) {}

template <class File>
absl::StatusOr<FollowedWeights> FollowedWeights::Follow(File file) {
  const auto state = std::make_shared<State>();
  MNEMON_ASSIGN_OR_RETURN(
      std::shared_ptr<FileBytes> bytes,
      FileBytes::Open(std::move(file), [state](std::string_view piece) {
        state->hash.Update(piece);
        if (state->scan) state->scan->Follow(piece);
      }));
  return FollowedWeights(state, std::move(bytes));
}

absl::StatusOr<FollowedWeights> FollowedWeights::Open(LargeFile file) {
  return Follow(std::move(file));
}

absl::StatusOr<FollowedWeights> FollowedWeights::Open(MadeFile file) {
  return Follow(std::move(file));
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

std::future<absl::StatusOr<VerifiedWeights>> VerifyLater(
    std::string shown, std::vector<FollowedFile> files, std::string_view config,
    std::string_view tokenizer) {
  return std::async(
      std::launch::deferred,
      [shown = std::move(shown), files = std::move(files),
       config = mnemon::Sha256Hex(config),
       tokenizer = tokenizer.empty() ? std::string() : mnemon::Sha256Hex(tokenizer)] {
        return CatchOutOfMemory(
            StrCat("the hash of ", Quoted(shown)),
            [&]() -> absl::StatusOr<VerifiedWeights> {
              VerifiedWeights verified;
              std::vector<FileHash> hashes;
              for (const FollowedFile& file : files) {
                MNEMON_ASSIGN_OR_RETURN(std::string sha256, file.weights.Sha256Hex());
                hashes.push_back({file.name, std::move(sha256)});
                std::ranges::copy(file.weights.bad_weights(),
                                  std::back_inserter(verified.bad_weights));
              }
              verified.model_id = ModelIdOf(hashes, config, tokenizer);
              return verified;
            });
      });
}

}  // namespace mnemon
