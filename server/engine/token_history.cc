// SPDX-License-Identifier: MIT
#include "server/engine/token_history.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/reserve.h"

namespace mnemon {

bool TokenHistory::MakeRoom(int64_t tokens, bool limited) {
  const auto pieces = static_cast<size_t>((tokens + kPiece - 1) / kPiece);
  if (pieces <= pieces_.size()) return true;
  const auto bytes_of = [](size_t count) {
    return static_cast<int64_t>(count * sizeof(Piece));
  };
  if (!charge_.TrySet(bytes_of(pieces))) {
    if (limited) return false;
    charge_.Set(bytes_of(pieces));
  }
  try {
    ReserveAtLeast(pieces_, pieces);
    while (pieces_.size() < pieces) {
      pieces_.push_back(std::make_unique_for_overwrite<Piece>());
    }
  } catch (const std::bad_alloc&) {
    charge_.Set(bytes_of(pieces_.size()));
    throw;
  }
  return true;
}

void TokenHistory::Write(int64_t begin, std::span<const int32_t> tokens) {
  while (!tokens.empty()) {
    const int64_t within = begin % kPiece;
    const auto count = std::min(static_cast<size_t>(kPiece - within), tokens.size());
    std::copy_n(tokens.data(), count, pieces_[begin / kPiece]->data() + within);
    tokens = tokens.subspan(count);
    begin += static_cast<int64_t>(count);
  }
}

void TokenHistory::Read(int64_t begin, std::span<int32_t> out) const {
  while (!out.empty()) {
    const int64_t within = begin % kPiece;
    const auto count = std::min(static_cast<size_t>(kPiece - within), out.size());
    std::copy_n(pieces_[begin / kPiece]->data() + within, count, out.data());
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
  }
}

void TokenHistory::Publish(int64_t kept, int64_t size) {
  if (observer_ != nullptr && *observer_) {
    (*observer_)({.session = session_, .history = *this, .kept = kept, .size = size});
  }
  size_.store(size, std::memory_order_release);
  version_.fetch_add(1, std::memory_order_release);
}

void TokenHistory::Change(int64_t kept, std::span<const int32_t> appended) {
  const int64_t before = size();
  MNEMON_CHECK(kept >= 0 && kept <= before);
  const int64_t after = kept + static_cast<int64_t>(appended.size());
  MakeRoom(after, /*limited=*/false);
  staged_ = 0;
  if (kept == before && appended.empty()) return;
  Write(kept, appended);
  Publish(kept, after);
}

bool TokenHistory::Stage(std::span<const int32_t> tokens, int64_t more) {
  staged_ = 0;
  const auto count = static_cast<int64_t>(tokens.size());
  if (!MakeRoom(size() + count + more, /*limited=*/true)) return false;
  Write(size(), tokens);
  staged_ = count;
  return true;
}

void TokenHistory::AppendStaged() {
  if (staged_ == 0) return;
  const int64_t kept = size();
  Publish(kept, kept + std::exchange(staged_, 0));
}

TokenHistory::Pieces TokenHistory::TakeUnused() {
  staged_ = 0;
  const auto used = pieces_.begin() + (size() + kPiece - 1) / kPiece;
  if (used == pieces_.end()) return {};
  Pieces unused;
  try {
    unused.pieces.reserve(pieces_.end() - used);
  } catch (const std::bad_alloc&) {
    return {};
  }
  std::move(used, pieces_.end(), std::back_inserter(unused.pieces));
  pieces_.erase(used, pieces_.end());
  const auto bytes = static_cast<int64_t>(unused.pieces.size() * sizeof(Piece));
  unused.charge = charge_.Split(bytes);
  return unused;
}

bool TokenHistory::CopyFrom(const TokenHistory& other) {
  MNEMON_CHECK(size() == 0);
  if (!MakeRoom(other.size(), /*limited=*/true)) return false;
  for (int64_t begin = 0; begin < other.size(); begin += kPiece) {
    const int64_t count = std::min(kPiece, other.size() - begin);
    other.Read(begin, std::span(*pieces_[begin / kPiece]).first(count));
  }
  Publish(0, other.size());
  return true;
}

}  // namespace mnemon
