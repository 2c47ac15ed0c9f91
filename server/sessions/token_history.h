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
  // The first `kept` tokens stay as they are; tokens from there to `size` are new. All
  // can be read during the call, while history.size() is still the old size. Called in
  // order, by the thread that makes the change, before anything that depends on it
  // leaves the server. Must not block.
  virtual void OnChange(const TokenHistory& history, int64_t kept,
                        int64_t size) noexcept = 0;

 protected:
  ~HistoryObserver() = default;
};

// Tokens are stored with the width that the vocabulary needs, in pieces that never move
// and are kept until TakeUnused or the end. So a change costs no more than the tokens
// it appends, and appending staged tokens is free. Several histories may share a piece,
// which is then no longer written. The last piece may have room for fewer tokens; a
// larger one replaces it when more come.
//
// Threads: the model runner changes it. Stage and TakeUnused are called by the holder
// of the session, before its call is queued or after it is over. Both read it, and
// ShareOf; size() and version() are for any thread.
class TokenHistory {
  static constexpr int64_t kPiece = 512;  // tokens; a power of two
  struct Piece {
    ByteCharge charge;
    int64_t room = 0;             // tokens: a power of two
    std::byte* tokens = nullptr;  // after it, in the same allocation
  };
  template <int64_t bytes>
  struct PieceOf;

 public:
  // Bytes of a token, enough for the tokens 0 .. vocab - 1.
  enum class Width { k1 = 1, k2 = 2, k4 = 4 };
  static constexpr Width WidthFor(int64_t vocab) {
    return vocab <= 1 << 8 ? Width::k1 : vocab <= 1 << 16 ? Width::k2 : Width::k4;
  }

  // `charge` counts its memory.
  explicit TokenHistory(ByteCharge charge = {}, Width width = Width::k4)
      : width_(width), charge_(std::move(charge)) {}

  // Tells `observer`, which outlives the history, of each change from now on; null:
  // nobody.
  void SetObserver(HistoryObserver* observer) { observer_ = observer; }

  // Keeps the first `kept` tokens, then appends `appended`, and drops staged tokens.
  // May exceed the memory limit, which the runner checks afterwards. REQUIRES: kept <=
  // size(). Throws std::bad_alloc, then nothing changed.
  void Change(int64_t kept, std::span<const int32_t> appended);
  void Append(std::span<const int32_t> tokens) { Change(size(), tokens); }
  void Cut(int64_t size) { Change(size, {}); }

  // Stages tokens: writes them after the history, without making them part of it, in
  // place of tokens staged before. The thread that accepts a prompt stages it, the
  // runner appends it. Also allocates memory for `more` tokens after them. False: the
  // memory limit is reached. Throws std::bad_alloc. In both cases nothing is staged.
  [[nodiscard]] bool Stage(std::span<const int32_t> tokens, int64_t more);
  // Appends the staged tokens, in constant time.
  void AppendStaged();
  int64_t staged() const { return staged_; }

  // Memory of tokens. Its destruction takes time in proportion to its size.
  using Pieces = std::vector<std::shared_ptr<Piece>>;
  // Drops the staged tokens and returns the unused memory after the history. Also
  // shrinks the last piece if there is memory for a smaller one.
  Pieces TakeUnused();
  // Returns all of a history that the store has, without telling the observer; the
  // history is then empty and has no observer. REQUIRES: nobody reads or changes it.
  Pieces Unload();
  // Upper bound for a whole piece: what ShareOf may allocate at once.
  static constexpr int64_t kPieceBytes = kPiece * sizeof(int32_t);
  // Memory of so many tokens after TakeUnused.
  static int64_t BytesOf(int64_t tokens, Width width);
  int64_t BytesOf(int64_t tokens) const { return BytesOf(tokens, width_); }

  // Fills an empty history with the first `size` tokens of another one by sharing its
  // whole pieces, a reference for 512 tokens. False: the memory limit is reached.
  // Throws std::bad_alloc. REQUIRES: size <= other.size(); `other` does not change
  // meanwhile, but another thread may stage tokens. Here and below both have the same
  // width.
  [[nodiscard]] bool ShareOf(TokenHistory& other, int64_t size);

  // Takes the memory of `longer`, which begins with this history, in constant time.
  // `longer` can then only be destroyed.
  void Become(TokenHistory& longer);

  // Length of the common prefix. Shared pieces are not read. REQUIRES: neither changes
  // meanwhile.
  int64_t CommonPrefix(const TokenHistory& other) const;

  int64_t size() const { return size_.load(std::memory_order_acquire); }
  // Differs after every change; the same after unloading and restoring.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Sets the version of a restored history.
  void SetVersion(uint64_t version) {
    version_.store(version, std::memory_order_release);
  }

  // The token at `index`, staged ones included. REQUIRES: index < size() + staged(), or
  // below the new size for an observer.
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
  // Throws std::bad_alloc.
  std::shared_ptr<Piece> MakePiece(int64_t room);
  template <int64_t bytes>
  static std::shared_ptr<Piece> MakePieceOf();
  // Room of the smallest piece for so many tokens, and the memory of a piece.
  static int64_t RoomFor(int64_t tokens);
  static int64_t BytesOfPiece(int64_t room, Width width);
  // Bytes of so many tokens within a piece.
  int64_t BytesIn(int64_t tokens) const { return tokens * static_cast<int>(width_); }
  // Makes the smallest copy of the last piece with tokens; null: that is as small as
  // can be, or shared. Throws std::bad_alloc.
  std::shared_ptr<Piece> MakeSmallerLast();
  // REQUIRES: room.
  void Write(int64_t begin, std::span<const int32_t> tokens);
  void Publish(int64_t kept, int64_t size);

  const Width width_;
  HistoryObserver* observer_ = nullptr;
  ByteCharge charge_;  // of pieces that are being made
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
