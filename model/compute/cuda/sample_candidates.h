// SPDX-License-Identifier: MIT
// The tokens of a row that may be drawn, after the cuts by top-k, typical and top-p.
// The end of a kept prefix is found by counting the digits of keys, without sorting.
// All threads of a block call it. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/sample_digits.h"
#include "model/compute/cuda/sample_order.h"
#include "model/compute/cuda/sample_sums.h"

namespace mnemon::device {

// Shared memory of a block that samples.
struct SampleShared {
  DigitSums sums;
  uint64_t of_warps[kWarp];
  uint32_t seen;
};

// A list of tokens in ascending order of ids: first all tokens of a row, then those
// that the cuts keep.
class Candidates {
 public:
  // `ids` and `spare`, [vocab] each, are scratch.
  MNEMON_DEVICE Candidates(const float* logits, int32_t vocab, int32_t* ids,
                           int32_t* spare, SampleShared& shared)
      : logits_(logits),
        vocab_(vocab),
        ids_(ids),
        spare_(spare),
        shared_(shared),
        count_(vocab) {}

  MNEMON_DEVICE int32_t vocab() const { return vocab_; }
  MNEMON_DEVICE int32_t count() const { return count_; }
  MNEMON_DEVICE uint64_t* of_warps() const { return shared_.of_warps; }
  // [vocab], free between cuts.
  MNEMON_DEVICE float* scratch() const { return reinterpret_cast<float*>(spare_); }
  MNEMON_DEVICE CandidateToken Token(int32_t i) const {
    const int32_t id = all_ ? i : ids_[i];
    return {id, logits_[id]};
  }

  // Calls use(inside, token) for the tokens of this warp's part, see Each.
  template <class Use>
  MNEMON_DEVICE void EachToken(const Use& use) const {
    Each(
        WarpPart({0, count_}, WarpIndex()), [&](int32_t i) { return Token(i); }, use);
  }

  // The token at which the running sum of weigh(token) exceeds want(sum of all).
  template <class Weigh, class Want>
  MNEMON_DEVICE Passed PassToken(const Weigh& weigh, const Want& want) const {
    return Pass(
        count_, [&](int32_t i) { return Token(i); }, weigh, want, shared_.of_warps);
  }

  // Keeps the shortest prefix, in the order (order.Key(token), id), whose weights
  // together exceed order.Target(sum of all).
  MNEMON_DEVICE void Cut(const CutOrder& order) {
    // Finds its last key from the highest digit on, then the last token with that key.
    End end{0, 32, INT32_MAX};
    uint64_t rest = 0;
    for (bool first = true, last = false; !last; first = false) {
      last = end.unknown == 0;
      if (!last) {
        const int shift = end.unknown > kDigitBits ? end.unknown - kDigitBits : 0;
        Count(order, end, shift);
        const Passed digit = Pass(
            kDigits, [&](int32_t d) { return shared_.sums.Of(d); },
            [](uint64_t sum) { return sum; },
            [&](uint64_t total) { return first ? order.Target(total) : rest; },
            shared_.of_warps);
        Barrier();
        end.key |= static_cast<uint32_t>(digit.index) << shift;
        end.unknown = shift;
        rest = digit.rest;
      } else {
        const Passed token = PassToken(
            [&](const CandidateToken& token) {
              return order.Key(token) == end.key ? order.Weight(token) : 0;
            },
            [&](uint64_t) { return rest; });
        end.id = Token(token.index).id;
      }
      if (first || last) KeepUpTo(order, end);
    }
  }

 private:
  // The last token of a prefix, as far as known.
  struct End {
    uint32_t key = 0;  // its lowest `unknown` bits are 0
    int unknown = 0;
    int32_t id = 0;
  };

  // Sums weights by a digit of their keys, for tokens whose known bits equal the end's.
  MNEMON_DEVICE void Count(const CutOrder& order, const End& end, int shift) {
    shared_.sums.Clear();
    Barrier();
    EachToken([&](bool inside, const CandidateToken& token) {
      if (!inside) return;
      const uint32_t key = order.Key(token);
      if (uint64_t{key ^ end.key} >> end.unknown != 0) return;
      shared_.sums.Add(key >> shift & (kDigits - 1), order.Weight(token));
    });
    Barrier();
  }

  MNEMON_DEVICE static bool IsUpTo(const End& end, uint32_t key, int32_t id) {
    const uint32_t last = end.key >> end.unknown;
    return key >> end.unknown < last || (key >> end.unknown == last && id <= end.id);
  }

  // Each warp lists what its part keeps in a place of its own; then the lists are
  // joined.
  MNEMON_DEVICE void KeepUpTo(const CutOrder& order, const End& end) {
    int32_t* const own = spare_ + WarpPart({0, count_}, WarpIndex()).begin;
    int32_t kept = 0;
    EachToken([&](bool inside, const CandidateToken& token) {
      const bool stays = inside && IsUpTo(end, order.Key(token), token.id);
      const uint32_t staying = Ballot(stays);
      const uint32_t before = staying & ((1u << Lane()) - 1);
      if (stays) own[kept + CountBits(before)] = token.id;
      kept += CountBits(staying);
    });
    if (Lane() == 0) shared_.of_warps[WarpIndex()] = static_cast<uint64_t>(kept);
    Barrier();
    const uint64_t ends =
        WarpRunningSum(Lane() < WarpCount() ? shared_.of_warps[Lane()] : 0);
    const auto total = static_cast<int32_t>(Shuffle(ends, kWarp - 1));
    const int32_t first = static_cast<int32_t>(Shuffle(ends, WarpIndex())) - kept;
    if (total < count_) {
      for (int32_t i = Lane(); i < kept; i += kWarp) ids_[first + i] = own[i];
      all_ = false;
      count_ = total;
    }
    Barrier();
  }

  const float* const logits_;
  const int32_t vocab_;
  int32_t* const ids_;
  int32_t* const spare_;
  SampleShared& shared_;
  int32_t count_;
  bool all_ = true;  // ids_ is not set
};

}  // namespace mnemon::device
