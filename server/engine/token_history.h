// SPDX-License-Identifier: MIT
// The token history of one session, and the only place where it changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_budget.h"

namespace mnemon {

class SessionJournal;
class TokenHistory;

// What one change makes of a history: its first `kept` tokens are as before, those
// behind them, up to `size`, are new. The observer can read all of them, while it is
// called; history.size() is the old size.
struct HistoryChange {
  const std::string& session;  // id; empty for a stateless call
  const TokenHistory& history;
  int64_t kept = 0;
  int64_t size = 0;
};

// Called for every change of every history, in order for each session, by the thread
// that makes the change and before anything that depends on it leaves the server. Must
// neither block nor throw: a journal queues the record here.
using HistoryObserver = std::function<void(const HistoryChange&)>;

// Its tokens take the bytes that the largest of them may need. Stored in pieces that
// never move and are kept until TakeUnused or the end, so that a
// change costs no more than the tokens it appends, and one that appends staged tokens
// nothing. Pieces may belong to several histories: those are not written any more. The
// last piece may have room for fewer tokens; a larger one takes its place when more
// come.
//
// Threads: changed by the model runner; what is staged, and TakeUnused, is by whoever
// holds the session, before a call that holds it is queued or when it is over. Read by
// both, and by ShareOf; size() and version() by any thread.
class TokenHistory {
  static constexpr int64_t kPiece = 512;  // tokens; a power of two
  struct Piece {
    ByteCharge charge;
    int64_t room = 0;             // tokens: a power of two
    std::byte* tokens = nullptr;  // behind it, in the same allocation
  };
  template <int64_t bytes>
  struct PieceOf;

 public:
  // Bytes of a token: what the tokens 0 .. vocab - 1 need.
  enum class Width { k1 = 1, k2 = 2, k4 = 4 };
  static constexpr Width WidthFor(int64_t vocab) {
    return vocab <= 1 << 8 ? Width::k1 : vocab <= 1 << 16 ? Width::k2 : Width::k4;
  }

  // `session` and `observer`, which may be null, outlive the history. `charge` counts
  // its memory.
  TokenHistory(const std::string& session, const HistoryObserver* observer,
               ByteCharge charge = {}, Width width = Width::k4)
      : session_(session),
        observer_(observer),
        width_(width),
        charge_(std::move(charge)) {}

  // From now on `journal`, which outlives it, is told of each change, like an observer.
  void SetJournal(SessionJournal* journal) { journal_ = journal; }

  // Keeps the first `kept` tokens, then appends `appended`; nothing is staged then.
  // Whatever the limit of its memory: a runner checks that afterwards. REQUIRES: kept
  // <= size(). Throws std::bad_alloc, then nothing has changed.
  void Change(int64_t kept, std::span<const int32_t> appended);
  void Append(std::span<const int32_t> tokens) { Change(size(), tokens); }
  void Cut(int64_t size) { Change(size, {}); }

  // Writes tokens behind the history which are no part of it yet, in place of those
  // staged before: by the thread that accepts a prompt, for the one that appends it.
  // Takes memory for `more` tokens behind them, too. False: the limit of its memory is
  // reached. Throws std::bad_alloc. Nothing is staged then.
  [[nodiscard]] bool Stage(std::span<const int32_t> tokens, int64_t more);
  // Appends what is staged, in constant time.
  void AppendStaged();
  int64_t staged() const { return staged_; }

  // Memory of tokens, freed when it is destroyed, in a time in proportion to it.
  using Pieces = std::vector<std::shared_ptr<Piece>>;
  // Takes out what is staged, and the memory behind the history, without freeing it: of
  // the last piece too, where a smaller one holds its tokens. Where memory has run out,
  // that stays.
  Pieces TakeUnused();
  // Of one that the store has: takes all of it, and tells nobody; it is empty then, and
  // has no journal. REQUIRES: nobody reads or changes it.
  Pieces Unload();
  // Of a whole piece, at most: what ShareOf may take at once.
  static constexpr int64_t kPieceBytes = kPiece * sizeof(int32_t);
  // Bytes of memory that so many tokens take after TakeUnused.
  static int64_t BytesOf(int64_t tokens, Width width);
  int64_t BytesOf(int64_t tokens) const { return BytesOf(tokens, width_); }

  // Makes an empty history the first `size` tokens of another, by sharing its whole
  // pieces: of 512 tokens a reference. False: the limit of its memory is reached.
  // Throws std::bad_alloc. REQUIRES: size <= other.size(), which is not changed
  // meanwhile, but another thread may stage tokens. Here and below both have tokens of
  // one width.
  [[nodiscard]] bool ShareOf(TokenHistory& other, int64_t size);

  // Becomes `longer`, which begins with it, by taking its memory, in constant time.
  // `longer` is then only good for its destruction.
  void Become(TokenHistory& longer);

  // Tokens that both begin with. Pieces that both hold are not read. REQUIRES: neither
  // changes meanwhile.
  int64_t CommonPrefix(const TokenHistory& other) const;

  int64_t size() const { return size_.load(std::memory_order_acquire); }
  // Differs after every change; not once it has left memory and come back.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // It has come back.
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
  // Tokens begin .. begin + out.size() - 1, likewise.
  void Read(int64_t begin, std::span<int32_t> out) const;

 private:
  enum class Room { kWhole, kLeast };  // of the last piece
  // Memory of its own for tokens begin .. end - 1, behind which nothing is kept. False,
  // only with `limited`: the limit is reached. Throws std::bad_alloc.
  bool MakeRoom(int64_t begin, int64_t end, bool limited, Room last = Room::kWhole);
  // Pieces that stay as they are when tokens begin .. end - 1 are to be written.
  int64_t PiecesKept(int64_t begin, int64_t end) const;
  // Throws std::bad_alloc.
  std::shared_ptr<Piece> MakePiece(int64_t room);
  template <int64_t bytes>
  static std::shared_ptr<Piece> MakePieceOf();
  // The smallest piece for so many tokens, and what it takes.
  static int64_t RoomFor(int64_t tokens);
  static int64_t BytesOfPiece(int64_t room, Width width);
  // What so many tokens take within a piece.
  int64_t BytesIn(int64_t tokens) const { return tokens * static_cast<int>(width_); }
  // Of the last piece that holds tokens, one that is large enough is made to replace
  // it; null: it is as small as can be, or not its own. Throws std::bad_alloc.
  std::shared_ptr<Piece> MakeSmallerLast();
  // REQUIRES: room.
  void Write(int64_t begin, std::span<const int32_t> tokens);
  void Publish(int64_t kept, int64_t size);

  const std::string& session_;
  const HistoryObserver* const observer_;
  const Width width_;
  SessionJournal* journal_ = nullptr;
  ByteCharge charge_;  // of pieces that are being made
  // Held to change pieces_ and the number of those that are shared, and by ShareOf: who
  // may change them reads them without.
  mutable std::mutex mutex_;
  Pieces pieces_;
  std::atomic<int64_t> shared_ = 0;  // the first ones, at most
  int64_t staged_ = 0;
  std::atomic<int64_t> size_ = 0;
  std::atomic<uint64_t> version_ = 0;
};

}  // namespace mnemon
