// SPDX-License-Identifier: MIT
#include "server/sessions/token_history.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <new>

#include "base/check.h"
#include "base/memory/heap_bytes.h"
#include "base/memory/reserve.h"

namespace mnemon {
namespace {

constexpr int64_t kLeastRoom = 16;  // tokens of the smallest piece

// Calls with a token as it is stored.
template <class F>
void WithStored(TokenHistory::Width width, F call) {
  switch (width) {
    case TokenHistory::Width::k1:
      return call(uint8_t{});
    case TokenHistory::Width::k2:
      return call(uint16_t{});
    case TokenHistory::Width::k4:
      return call(int32_t{});
  }
}

}  // namespace

template <int64_t most>
std::shared_ptr<TokenHistory::Piece> TokenHistory::MakePieceOf(int64_t wanted) {
  struct Whole : Piece {
    alignas(int32_t) std::array<std::byte, most> all;
  };
  if constexpr (most > kLeastRoom) {
    if (wanted <= most / 2) return MakePieceOf<most / 2>(wanted);
  }
  auto piece = std::make_shared_for_overwrite<Whole>();
  piece->tokens = piece->all.data();
  return piece;
}

int64_t TokenHistory::RoomFor(int64_t tokens) {
  return std::max(kLeastRoom,
                  static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens))));
}

int64_t TokenHistory::BytesOfPiece(int64_t room, Width width) {
  return SharedHeapBytes(static_cast<int64_t>(sizeof(Piece)) +
                         room * static_cast<int>(width));
}

int64_t TokenHistory::BytesOf(int64_t tokens, Width width) {
  const int64_t last = tokens % kPiece;
  return tokens / kPiece * BytesOfPiece(kPiece, width) +
         (last > 0 ? BytesOfPiece(RoomFor(last), width) : 0);
}

std::shared_ptr<TokenHistory::Piece> TokenHistory::MakePiece(int64_t room,
                                                             ByteCharge& charge) {
  std::shared_ptr<Piece> piece = MakePieceOf<kPieceBytes>(BytesIn(room));
  piece->room = room;
  piece->charge = charge.Split(BytesOfPiece(room, width_));
  return piece;
}

int64_t TokenHistory::PiecesKept(int64_t begin, int64_t end) const {
  const int64_t first = begin / kPiece;
  const auto held = static_cast<int64_t>(pieces_.size());
  if (begin >= end) return held;
  // The first piece that changes is shared: it is copied, and the ones after it are not
  // needed.
  if (first < shared_) return first;
  if (held == 0) return 0;
  const int64_t needed = std::min(kPiece, end - (held - 1) * kPiece);
  return pieces_.back()->room < needed ? held - 1 : held;
}

bool TokenHistory::MakeRoom(int64_t begin, int64_t end, bool limited, Room last) {
  const int64_t pieces = (end + kPiece - 1) / kPiece;
  const int64_t first = begin / kPiece;
  const int64_t kept = PiecesKept(begin, end);
  if (pieces <= kept) return true;
  const int64_t last_room =
      last == Room::kLeast ? RoomFor(end - (pieces - 1) * kPiece) : kPiece;
  const int64_t bytes = (pieces - kept - 1) * BytesOfPiece(kPiece, width_) +
                        BytesOfPiece(last_room, width_);
  ByteCharge charge = charge_.Split(0);
  if (!charge.TrySet(bytes)) {
    if (limited) return false;
    charge.Set(bytes);
  }
  Pieces made;
  const auto count = static_cast<size_t>(pieces - kept);
  made.reserve(count);
  while (made.size() < count) {
    made.push_back(MakePiece(made.size() + 1 < count ? kPiece : last_room, charge));
  }
  std::lock_guard lock(mutex_);
  ReserveAtLeast(pieces_, static_cast<size_t>(pieces));
  if (kept == first && begin % kPiece > 0) {
    std::copy_n(pieces_[first]->tokens, BytesIn(begin % kPiece), made.front()->tokens);
  }
  pieces_.resize(kept);
  shared_ = std::min(shared_.load(), kept);
  std::move(made.begin(), made.end(), std::back_inserter(pieces_));
  return true;
}

template <class Tokens, class Call>
void TokenHistory::ForEachPiece(int64_t begin, Tokens tokens, Call call) const {
  while (!tokens.empty()) {
    const int64_t within = begin % kPiece;
    const auto count = std::min(static_cast<size_t>(kPiece - within), tokens.size());
    call(tokens.first(count), pieces_[begin / kPiece]->tokens + BytesIn(within));
    tokens = tokens.subspan(count);
    begin += static_cast<int64_t>(count);
  }
}

void TokenHistory::Write(int64_t begin, std::span<const int32_t> tokens) {
  ForEachPiece(begin, tokens, [&](std::span<const int32_t> part, std::byte* to) {
    WithStored(width_, [&](auto stored) {
      for (size_t i = 0; i < part.size(); ++i) {
        stored = static_cast<decltype(stored)>(part[i]);
        std::memcpy(to + i * sizeof(stored), &stored, sizeof(stored));
      }
    });
  });
}

void TokenHistory::Read(int64_t begin, std::span<int32_t> out) const {
  ForEachPiece(begin, out, [&](std::span<int32_t> part, const std::byte* from) {
    WithStored(width_, [&](auto stored) {
      for (size_t i = 0; i < part.size(); ++i) {
        std::memcpy(&stored, from + i * sizeof(stored), sizeof(stored));
        part[i] = static_cast<int32_t>(stored);
      }
    });
  });
}

void TokenHistory::Publish(int64_t kept, int64_t size) {
  // First: what the journal has may be acknowledged, and then has another version.
  version_.fetch_add(1, std::memory_order_release);
  if (observer_ != nullptr) observer_->OnChange(*this, kept, size);
  size_.store(size, std::memory_order_release);
}

void TokenHistory::Change(int64_t kept, std::span<const int32_t> appended) {
  const int64_t before = size();
  MNEMON_CHECK(kept >= 0 && kept <= before);
  const int64_t after = kept + static_cast<int64_t>(appended.size());
  MakeRoom(kept, after, /*limited=*/false);
  staged_ = 0;
  if (kept == before && appended.empty()) return;
  Write(kept, appended);
  Publish(kept, after);
}

bool TokenHistory::Stage(std::span<const int32_t> tokens, int64_t more) {
  staged_ = 0;
  const auto count = static_cast<int64_t>(tokens.size());
  if (!MakeRoom(size(), size() + count + more, /*limited=*/true)) return false;
  Write(size(), tokens);
  staged_ = count;
  return true;
}

void TokenHistory::AppendStaged() {
  if (staged_ == 0) return;
  const int64_t kept = size();
  Publish(kept, kept + std::exchange(staged_, 0));
}

std::shared_ptr<TokenHistory::Piece> TokenHistory::MakeSmallerLast() {
  const int64_t last = (size() + kPiece - 1) / kPiece - 1;
  if (last < shared_) return nullptr;
  const int64_t tokens = size() - last * kPiece;
  const int64_t room = RoomFor(tokens);
  if (room >= pieces_[last]->room) return nullptr;
  ByteCharge charge = charge_.Split(0);
  charge.Set(BytesOfPiece(room, width_));
  auto piece = MakePiece(room, charge);
  std::copy_n(pieces_[last]->tokens, BytesIn(tokens), piece->tokens);
  return piece;
}

TokenHistory::Pieces TokenHistory::TakeUnused() {
  staged_ = 0;
  const int64_t kept = (size() + kPiece - 1) / kPiece;
  Pieces unused;
  std::shared_ptr<Piece> smaller;
  try {
    if (kept > 0) smaller = MakeSmallerLast();
    const size_t count = pieces_.size() - static_cast<size_t>(kept);
    if (count == 0 && smaller == nullptr) return unused;
    unused.reserve(count + 1);
  } catch (const std::bad_alloc&) {
    return {};
  }
  std::lock_guard lock(mutex_);
  const auto used = pieces_.begin() + kept;
  std::move(used, pieces_.end(), std::back_inserter(unused));
  pieces_.erase(used, pieces_.end());
  shared_ = std::min(shared_.load(), kept);
  if (smaller != nullptr) {
    pieces_.back().swap(smaller);
    unused.push_back(std::move(smaller));
  }
  return unused;
}

TokenHistory::Pieces TokenHistory::Unload() {
  std::lock_guard lock(mutex_);
  observer_ = nullptr;
  shared_ = 0;
  staged_ = 0;
  size_.store(0, std::memory_order_release);
  return std::exchange(pieces_, {});
}

bool TokenHistory::ShareOf(TokenHistory& other, int64_t size) {
  MNEMON_CHECK(this->size() == 0 && size <= other.size() && width_ == other.width_);
  const int64_t whole = size / kPiece;
  const int64_t rest = size % kPiece;
  std::shared_ptr<Piece> last;  // another one may take its place
  {
    std::lock_guard lock(other.mutex_);
    pieces_.assign(other.pieces_.begin(), other.pieces_.begin() + whole);
    shared_ = whole;
    other.shared_ = std::max(other.shared_.load(), whole);
    if (rest > 0) last = other.pieces_[whole];
  }
  if (!MakeRoom(whole * kPiece, size, /*limited=*/true, Room::kLeast)) return false;
  if (rest > 0) std::copy_n(last->tokens, BytesIn(rest), pieces_.back()->tokens);
  if (size > 0) Publish(0, size);
  return true;
}

void TokenHistory::Become(TokenHistory& longer) {
  const int64_t kept = size();
  const int64_t tokens = longer.size();
  MNEMON_CHECK(kept <= tokens && width_ == longer.width_);
  {
    std::scoped_lock lock(mutex_, longer.mutex_);
    pieces_.swap(longer.pieces_);
    shared_ = longer.shared_.load();
  }
  staged_ = longer.staged_ = 0;
  longer.size_.store(0, std::memory_order_release);
  if (tokens > kept) Publish(kept, tokens);
}

int64_t TokenHistory::CommonPrefix(const TokenHistory& other) const {
  const int64_t most = std::min(size(), other.size());
  for (int64_t begin = 0; begin < most; begin += kPiece) {
    const Piece& mine = *pieces_[begin / kPiece];
    const Piece& theirs = *other.pieces_[begin / kPiece];
    if (&mine == &theirs) continue;
    const std::byte* const end = mine.tokens + BytesIn(std::min(kPiece, most - begin));
    const std::byte* const differs =
        std::mismatch<const std::byte*>(mine.tokens, end, theirs.tokens).first;
    if (differs != end) return begin + (differs - mine.tokens) / BytesIn(1);
  }
  return most;
}

}  // namespace mnemon
