// SPDX-License-Identifier: MIT
// A damaged block of a table takes its keys along. Only its file's index knows where it
// ends: the first key after it is found by halving.
#include "server/store/copies_reading.h"

#include <algorithm>
#include <array>
#include <optional>

#include "rocksdb/write_batch.h"
#include "server/store/store_status.h"

namespace mnemon {
namespace {

// Read in one step of a comparison.
constexpr size_t kStepBytes = size_t{256} << 10;

// Keys as fractions: longer than any key that differs from its neighbours.
constexpr size_t kDigits = 96;
using Fraction = std::array<unsigned char, kDigits>;

Fraction FractionOf(const std::string& key) {
  Fraction fraction{};
  std::copy_n(key.begin(), std::min(kDigits, key.size()), fraction.begin());
  return fraction;
}

std::string KeyOf(const Fraction& fraction) {
  return {fraction.begin(), fraction.end()};
}

Fraction Middle(const Fraction& a, const Fraction& b) {
  Fraction sum{};
  int carry = 0;
  for (size_t i = kDigits; i-- > 0;) {
    const int digit = a[i] + b[i] + carry;
    sum[i] = static_cast<unsigned char>(digit);
    carry = digit >> 8;
  }
  for (unsigned char& digit : sum) {
    const int whole = digit + (carry << 8);
    digit = static_cast<unsigned char>(whole >> 1);
    carry = whole & 1;
  }
  return sum;
}

// The smallest key of `span` from which on `copy` can read; span.end: there is none.
std::string FirstReadable(StoreCopy& copy, StoreTable table, const StoreKeySpan& span) {
  const rocksdb::Slice end = span.end;
  const auto first_from = [&](const std::string& from) -> std::optional<std::string> {
    const auto at = copy.Iterate(table, end);
    at->Seek(from);
    if (!at->status().ok()) return std::nullopt;
    return at->Valid() ? at->key().ToString() : span.end;
  };
  Fraction low = FractionOf(span.begin), high = FractionOf(span.end);
  while (true) {
    const Fraction middle = Middle(low, high);
    if (middle == low) break;
    (first_from(KeyOf(middle)) ? high : low) = middle;
  }
  return first_from(KeyOf(high)).value_or(span.end);
}

// What lies between `from`, a key that was read and a zero byte, and `next`, which
// comes before `end` if there is such a key.
UnreadableRange UnreadableBetween(StoreTable table, const std::string& from,
                                  const std::string& next, const std::string& end) {
  UnreadableRange range;
  const std::string_view before =
      std::string_view(from).substr(0, from.empty() ? 0 : from.size() - 1);
  if (const auto parts = SplitStoreKey(table, before)) {
    range.first_space = parts->session.space;
    range.first_id = parts->session.id;
  }
  if (next < end) {
    if (const auto parts = SplitStoreKey(table, next)) {
      range.last_space = parts->session.space;
      range.last_id = parts->session.id;
    }
  }
  return range;
}

// Visits from span.begin on, which moves to after what was visited. `more` becomes
// false at the end, and when `visit` wants no more.
rocksdb::Status ScanCopy(StoreCopy& copy, StoreTable table, StoreKeySpan& span,
                         const SessionStore::Visit& visit, bool& more) {
  const rocksdb::Slice end = span.end;
  const auto at = copy.Iterate(table, end);
  for (at->Seek(span.begin); at->Valid(); at->Next()) {
    const auto parts = SplitStoreKey(table, at->key().ToStringView());
    more = !parts || visit(parts->session, parts->name, at->value().ToStringView());
    span.begin.assign(at->key().data(), at->key().size());
    span.begin.push_back('\0');
    if (!more) return rocksdb::Status::OK();
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

StoreComparison::Outcome StoreComparison::Failed(const rocksdb::Status& status,
                                                 Outcome damaged) {
  if (IsDamage(status)) return damaged;
  status_ = StoreStatus(status);
  return Outcome::kFailed;
}

StoreComparison::Outcome StoreComparison::Step() {
  if (table_ == std::size(kStoreTables)) return Outcome::kDone;
  const StoreTable table = kStoreTables[table_];
  const StoreKeySpan all = AllStoreKeys();
  const rocksdb::Slice end = all.end;
  const auto one = first_.Iterate(table, end);
  const auto two = second_.Iterate(table, end);
  one->Seek(at_);
  two->Seek(at_);
  rocksdb::WriteBatch batch;
  size_t bytes = 0;
  while (bytes < kStepBytes && (one->Valid() || two->Valid())) {
    if (!one->status().ok() || !two->status().ok()) break;
    const int order = !one->Valid()   ? 1
                      : !two->Valid() ? -1
                                      : one->key().compare(two->key());
    rocksdb::Status status;
    const rocksdb::Slice key = order <= 0 ? one->key() : two->key();
    if (order < 0 || (order == 0 && one->value() != two->value())) {
      status = batch.Put(second_.table(table), key, one->value());
      ++differences_;
    } else if (order > 0) {
      status = batch.Delete(second_.table(table), key);
      ++differences_;
    }
    if (!status.ok()) return Failed(status, Outcome::kFailed);
    bytes += key.size() + (order <= 0 ? one->value().size() : 0);
    at_.assign(key.data(), key.size());
    at_.push_back('\0');
    if (order <= 0) one->Next();
    if (order >= 0) two->Next();
  }
  if (batch.Count() > 0) {
    status_ = second_.Fill(batch);
    if (!status_.ok()) return Outcome::kFailed;
  }
  if (!two->status().ok()) return Failed(two->status(), Outcome::kSecondDamaged);
  if (!one->status().ok()) {
    if (!stands_in_ || !IsDamage(one->status())) {
      return Failed(one->status(), Outcome::kFirstDamaged);
    }
    return Outcome::kStuck;
  }
  if (!one->Valid() && !two->Valid()) {
    ++table_;
    at_.clear();
  }
  return Outcome::kMore;
}

void StoreComparison::Skip() {
  const StoreKeySpan all = AllStoreKeys();
  at_ =
      std::max(FirstReadable(first_, kStoreTables[table_], {at_, all.end}), at_ + '\0');
  if (at_ >= all.end) {
    ++table_;
    at_.clear();
  }
}

}  // namespace mnemon
