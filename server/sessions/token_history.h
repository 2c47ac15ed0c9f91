// SPDX-License-Identifier: MIT
// The token history of one session. It changes only here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/memory/byte_budget.h"

namespace mnemon {

class TokenHistory;

// Observer of the changes of one history, such as the journal.
class HistoryObserver {
 public:
  // Tokens from `kept` to `size` are new; all can be read, while history.size() is
  // still the old size. Called in order, by the thread that makes the change, before
  // anything that depends on it leaves the server. Must not block.
  virtual void OnChange(const TokenHistory& history, int64_t kept,
                        int64_t size) noexcept = 0;

 protected:
  ~HistoryObserver() = default;
};

// Tokens are stored with the width that the vocabulary needs, in pieces that never move
// and are kept until TakeUnused or the end: a change costs no more than the tokens that
// it appends. Histories may share a piece, which is then no longer written. The last
// piece may be smaller; a larger one replaces it when more tokens come.
//
// Threads: the model runner changes it; the holder of the session calls Stage and
// TakeUnused before its call is queued or after it is over. Both read and share it;
// size() and version() are for any thread.
class TokenHistory {
  static constexpr int64_t kPiece = 512;  // tokens; a power of two
  struct Piece {
    ByteCharge charge;
    int64_t room = 0;             // tokens: a power of two
    std::byte* tokens = nullptr;  // after it, in the same allocation
  };

 public:
  // Bytes of a token, enough for the tokens 0 .. vocab - 1.
  enum class Width { k1 = 1, k2 = 2, k4 = 4 };
  static constexpr Width WidthFor(int64_t vocab) {
    return vocab <= 1 << 8 ? Width::k1 : vocab <= 1 << 16 ? Width::k2 : Width::k4;
  }

  // `charge` counts its memory.
  explicit TokenHistory(ByteCharge charge = {}, Width width = Width::k4)
      : width_(width), charge_(std::move(charge)) {}

  // `observer`, which outlives the history or is null, is told of changes from now on.
  void SetObserver(HistoryObserver* observer) { observer_ = observer; }

  // Keeps the first `kept` tokens, appends `appended` and drops staged tokens. May
  // exceed the memory limit, which the runner checks afterwards. REQUIRES: kept <=
  // size(). Throws std::bad_alloc, then nothing changed.
  void Change(int64_t kept, std::span<const int32_t> appended);
  void Append(std::span<const int32_t> tokens) { Change(size(), tokens); }
  void Cut(int64_t size) { Change(size, {}); }

  // Writes tokens after the history without making them part of it, in place of tokens
  // staged before, and allocates memory for `more` after them. The thread that accepts
  // a prompt stages it, the runner appends it. False: the memory limit is reached.
  // Throws std::bad_alloc. In both cases nothing is staged.
  [[nodiscard]] bool Stage(std::span<const int32_t> tokens, int64_t more);
  // O(1).
  void AppendStaged();
  int64_t staged() const { return staged_; }

  // Memory of tokens. Its destruction takes time in proportion to its size.
  using Pieces = std::vector<std::shared_ptr<Piece>>;
  // Drops staged tokens and returns unused memory; the last piece shrinks if there is
  // memory for a smaller one.
  Pieces TakeUnused();
  // Returns all without telling the observer; the history is then empty and has no
  // observer. REQUIRES: the store has it, and nobody reads or changes it.
  Pieces Unload();
  // Most that a piece takes: what ShareOf may allocate at once.
  static constexpr int64_t kPieceBytes = kPiece * sizeof(int32_t);
  // Memory of so many tokens after TakeUnused.
  static int64_t BytesOf(int64_t tokens, Width width);
  int64_t BytesOf(int64_t tokens) const { return BytesOf(tokens, width_); }

  // Fills an empty history with the first `size` tokens of another one by sharing its
  // whole pieces. False: the memory limit is reached. Throws std::bad_alloc. REQUIRES:
  // size <= other.size(); `other` does not change meanwhile, but another thread may
  // stage tokens. Here and below both have the same width.
  [[nodiscard]] bool ShareOf(TokenHistory& other, int64_t size);

  // Takes the memory of `longer`, which begins with this history and can then only be
  // destroyed. O(1).
  void Become(TokenHistory& longer);

  // Length of the common prefix. REQUIRES: neither changes meanwhile.
  int64_t CommonPrefix(const TokenHistory& other) const;

  int64_t size() const { return size_.load(std::memory_order_acquire); }
  // Differs after every change; the same after unloading and restoring, which sets it.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void SetVersion(uint64_t version) {
    version_.store(version, std::memory_order_release);
  }

  // REQUIRES: index < size() + staged(), or below the new size for an observer.
  int32_t operator[](size_t index) const {
    int32_t token;
    Read(static_cast<int64_t>(index), {&token, 1});
    return token;
  }
  // Copies tokens begin .. begin + out.size() - 1; the same conditions.
  void Read(int64_t begin, std::span<int32_t> out) const;

 private:
  enum class Room { kWhole, kLeast };  // of the last piece
  // Ensures memory of its own for tokens begin .. end - 1; may drop pieces after them.
  // False, only if `limited`: the limit is reached. Throws std::bad_alloc.
  bool MakeRoom(int64_t begin, int64_t end, bool limited, Room last = Room::kWhole);
  // Number of pieces that stay as they are when tokens begin .. end - 1 are written.
  int64_t PiecesKept(int64_t begin, int64_t end) const;
  // Moves its bytes out of `charge`. Throws std::bad_alloc.
  std::shared_ptr<Piece> MakePiece(int64_t room, ByteCharge& charge);
  // With the least power of two that is at least `wanted`, up to `most` bytes.
  template <int64_t most>
  static std::shared_ptr<Piece> MakePieceOf(int64_t wanted);
  // Calls with each part of `tokens` and its place, of which `begin` is the first.
  template <class Tokens, class Call>
  void ForEachPiece(int64_t begin, Tokens tokens, Call call) const;
  // Room of the smallest piece for so many tokens; memory of a piece.
  static int64_t RoomFor(int64_t tokens);
  static int64_t BytesOfPiece(int64_t room, Width width);
  // Bytes of so many tokens within a piece.
  int64_t BytesIn(int64_t tokens) const { return tokens * static_cast<int>(width_); }
  // The smallest copy of the last piece with tokens; null: that is as small, or shared.
  // Throws std::bad_alloc.
  std::shared_ptr<Piece> MakeSmallerLast();
  // REQUIRES: room.
  void Write(int64_t begin, std::span<const int32_t> tokens);
  void Publish(int64_t kept, int64_t size);

  const Width width_;
  HistoryObserver* observer_ = nullptr;
  ByteCharge charge_;  // of 0 bytes: those of the pieces are split off
  // Held to change pieces_ and shared_, and by ShareOf. Threads that may change them
  // read them without it.
  mutable std::mutex mutex_;
  Pieces pieces_;
  std::atomic<int64_t> shared_ = 0;  // upper bound of the shared pieces, the first ones
  int64_t staged_ = 0;
  std::atomic<int64_t> size_ = 0;
  std::atomic<uint64_t> version_ = 0;
};

}  // namespace mnemon
