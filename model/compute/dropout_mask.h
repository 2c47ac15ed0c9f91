// SPDX-License-Identifier: MIT
// Dropout masks. Whether an element is kept is a function of the update and of the
// element's place, so that masks do not depend on how a batch is divided.
#pragma once

#include <cstdint>
#include <span>

namespace mnemon {

// What dropout applies to.
enum class DropoutKind : uint8_t {
  kEmbedding,
  kAttention,  // weights; elements are keys
  kAttentionOutput,
  kHidden,  // of the feed-forward
  kFeedForwardOutput,
  kHead
};

// Determines all masks of a forward pass.
struct DropoutKey {
  uint64_t key = 0;       // different for every update
  int64_t first_row = 0;  // first row, if a batch is computed in parts
};

// Place of a vector of elements.
struct MaskPlace {
  int64_t layer = 0;  // below 2^13
  DropoutKind kind = DropoutKind::kEmbedding;
  int64_t head = 0;      // below 2^16
  int64_t row = 0;       // of the whole batch
  int64_t position = 0;  // within the window
};

// Inverted dropout: an element is 0 with probability p, rounded to 1/65536, else 1 / (1
// - p). Philox4x32-10 with `key` and the counter (block, position, row, layer and kind
// and head): block i gives elements 128 (i / 16) + 16 j + i % 16, j = 0 .. 7, one for
// each half of its four words, the lower half of a word first. Immutable: safe for
// concurrent use.
class DropoutMask {
 public:
  // Elements determined by 16 blocks.
  static constexpr int64_t kGroup = 128;

  // `p` from 0 to below 1; `key`: different for every update.
  DropoutMask(double p, uint64_t key);

  uint64_t key() const { return key_; }
  // An element is dropped if its half word is below this.
  uint32_t threshold() const { return threshold_; }
  float kept() const { return kept_; }  // 1 / (1 - p)
  // The last word of the counter.
  static uint32_t Site(const MaskPlace& place);

  // Fills in elements 0 .. mask.size() - 1.
  void Fill(const MaskPlace& place, std::span<float> mask) const;

 private:
  uint64_t key_;
  uint32_t threshold_;
  float kept_;
};

}  // namespace mnemon
