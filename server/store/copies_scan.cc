// SPDX-License-Identifier: MIT
#include "server/store/copies_scan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/store/damaged_keys.h"
#include "server/store/store_status.h"

namespace mnemon {
namespace {

std::string_view AsView(const rocksdb::Slice& text) {
  return {text.data(), text.size()};
}

// Visits from span.begin on, which moves behind what was visited. `more` becomes
// false at the end, and when `visit` wants no more.
rocksdb::Status ScanCopy(StoreCopy& copy, StoreTable table, StoreKeySpan& span,
                         const SessionStore::Visit& visit, bool& more) {
  const rocksdb::Slice end = span.end;
  const auto at = copy.Iterate(table, end);
  for (at->Seek(span.begin); at->Valid(); at->Next()) {
    const std::optional<StoreKeyParts> parts = SplitStoreKey(table, AsView(at->key()));
    const bool wants =
        !parts || visit(parts->session, parts->name, AsView(at->value()));
    span.begin.assign(at->key().data(), at->key().size());
    span.begin.push_back('\0');
    if (!wants) {
      more = false;
      return rocksdb::Status::OK();
    }
  }
  more = !at->status().ok();
  return at->status();
}

}  // namespace

absl::Status ScanCopies(std::span<StoreCopy* const> copies, StoreTable table,
                        StoreKeySpan span, const SessionStore::Visit& visit,
                        const SessionStore::Unreadable& unreadable,
                        const std::function<void(size_t)>& damaged) {
  size_t turn = 0, tried = 0;
  while (true) {
    const std::string from = span.begin;
    bool more = true;
    const rocksdb::Status status = ScanCopy(*copies[turn], table, span, visit, more);
    if (!more) return absl::OkStatus();
    if (!IsDamage(status)) return StoreStatus(status);
    damaged(turn);
    // The other one may have read further, and then it is this one's turn again.
    tried = span.begin == from ? tried + 1 : 1;
    if (tried < copies.size()) {
      turn = (turn + 1) % copies.size();
      continue;
    }
    // What the disk does not give just now it may give later.
    if (status.IsIOError()) return StoreStatus(status);
    tried = 0;
    std::string next = span.end;
    for (StoreCopy* const copy : copies) {
      next = std::min(next, FirstReadable(*copy, table, span));
    }
    unreadable(UnreadableBetween(table, from, next, span.end));
    if (next >= span.end) return absl::OkStatus();
    span.begin = next;
  }
}

}  // namespace mnemon
