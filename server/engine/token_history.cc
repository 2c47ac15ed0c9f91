// SPDX-License-Identifier: MIT
#include "server/engine/token_history.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/reserve.h"
#include "server/engine/session_journal.h"

namespace mnemon {

std::shared_ptr<TokenHistory::Piece> TokenHistory::MakePiece() {
  auto piece = std::make_shared_for_overwrite<Piece>();
  piece->charge = charge_.Split(sizeof(Piece));
  return piece;
}

bool TokenHistory::MakeRoom(int64_t begin, int64_t end, bool limited) {
  const auto pieces = static_cast<size_t>((end + kPiece - 1) / kPiece);
  const auto first = static_cast<size_t>(begin / kPiece);
  // The first piece of those that change is kept up to `begin`; the others that are
  // shared hold nothing that stays.
  const bool owns = begin < end && first < static_cast<size_t>(shared_);
  const size_t kept = owns ? first : std::max(pieces_.size(), first);
  if (pieces <= kept) return true;
  const auto bytes = static_cast<int64_t>((pieces - kept) * sizeof(Piece));
  if (!charge_.TrySet(bytes)) {
    if (limited) return false;
    charge_.Set(bytes);
  }
  Pieces made;
  try {
    made.reserve(pieces - kept);
    while (made.size() < pieces - kept) made.push_back(MakePiece());
    std::lock_guard lock(mutex_);
    ReserveAtLeast(pieces_, pieces);
    if (owns) {
      std::copy_n(pieces_[first]->tokens.data(), begin % kPiece,
                  made.front()->tokens.data());
      pieces_.resize(first);
      shared_ = static_cast<int64_t>(first);
    }
    std::move(made.begin(), made.end(), std::back_inserter(pieces_));
  } catch (const std::bad_alloc&) {
    charge_.Set(0);
    throw;
  }
  return true;
}

void TokenHistory::Write(int64_t begin, std::span<const int32_t> tokens) {
  while (!tokens.empty()) {
    const int64_t within = begin % kPiece;
    const auto count = std::min(static_cast<size_t>(kPiece - within), tokens.size());
    std::copy_n(tokens.data(), count, pieces_[begin / kPiece]->tokens.data() + within);
    tokens = tokens.subspan(count);
    begin += static_cast<int64_t>(count);
  }
}

void TokenHistory::Read(int64_t begin, std::span<int32_t> out) const {
  while (!out.empty()) {
    const int64_t within = begin % kPiece;
    const auto count = std::min(static_cast<size_t>(kPiece - within), out.size());
    std::copy_n(pieces_[begin / kPiece]->tokens.data() + within, count, out.data());
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
  }
}

void TokenHistory::Publish(int64_t kept, int64_t size) {
  if (observer_ != nullptr && *observer_) {
    (*observer_)({.session = session_, .history = *this, .kept = kept, .size = size});
  }
  if (journal_ != nullptr) journal_->OnChange(*this, kept, size);
  size_.store(size, std::memory_order_release);
  version_.fetch_add(1, std::memory_order_release);
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

TokenHistory::Pieces TokenHistory::TakeUnused() {
  staged_ = 0;
  const int64_t kept = (size() + kPiece - 1) / kPiece;
  const auto used = pieces_.begin() + kept;
  if (used == pieces_.end()) return {};
  Pieces unused;
  try {
    unused.reserve(static_cast<size_t>(pieces_.end() - used));
  } catch (const std::bad_alloc&) {
    return {};
  }
  std::lock_guard lock(mutex_);
  std::move(used, pieces_.end(), std::back_inserter(unused));
  pieces_.erase(used, pieces_.end());
  shared_ = std::min(shared_.load(), kept);
  return unused;
}

bool TokenHistory::ShareOf(TokenHistory& other, int64_t size) {
  MNEMON_CHECK(this->size() == 0 && size <= other.size());
  const int64_t whole = size / kPiece;
  {
    std::lock_guard lock(other.mutex_);
    pieces_.assign(other.pieces_.begin(), other.pieces_.begin() + whole);
    shared_ = whole;
    other.shared_ = std::max(other.shared_.load(), whole);
  }
  if (!MakeRoom(whole * kPiece, size, /*limited=*/true)) return false;
  if (whole * kPiece < size) {
    other.Read(
        whole * kPiece,
        std::span(pieces_.back()->tokens).first(static_cast<size_t>(size % kPiece)));
  }
  if (size > 0) Publish(0, size);
  return true;
}

void TokenHistory::Become(TokenHistory& longer) {
  const int64_t kept = size();
  const int64_t tokens = longer.size();
  MNEMON_CHECK(kept <= tokens);
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
    const auto end = mine.tokens.begin() + std::min(kPiece, most - begin);
    const auto differs =
        std::mismatch(mine.tokens.begin(), end, theirs.tokens.begin()).first;
    if (differs != end) return begin + (differs - mine.tokens.begin());
  }
  return most;
}

}  // namespace mnemon
