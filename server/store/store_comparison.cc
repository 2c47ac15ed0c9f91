// SPDX-License-Identifier: MIT
#include "server/store/store_comparison.h"

#include <algorithm>
#include <memory>

#include "rocksdb/write_batch.h"
#include "server/store/damaged_keys.h"
#include "server/store/store_key.h"
#include "server/store/store_status.h"

namespace mnemon {
namespace {

constexpr StoreTable kTables[] = {StoreTable::kSessions, StoreTable::kJournal,
                                  StoreTable::kCheckpoints};

}  // namespace

StoreComparison::Outcome StoreComparison::Failed(const rocksdb::Status& status,
                                                 Outcome damaged) {
  if (IsDamage(status)) return damaged;
  status_ = StoreStatus(status);
  return Outcome::kFailed;
}

StoreComparison::Outcome StoreComparison::Step() {
  if (table_ == std::size(kTables)) return Outcome::kDone;
  const StoreTable table = kTables[table_];
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
    stuck_ = true;
    return Outcome::kMore;
  }
  if (!one->Valid() && !two->Valid()) {
    ++table_;
    at_.clear();
  }
  return Outcome::kMore;
}

void StoreComparison::Skip() {
  const StoreKeySpan all = AllStoreKeys();
  at_ = std::max(FirstReadable(first_, kTables[table_], {at_, all.end}), at_ + '\0');
  if (at_ >= all.end) {
    ++table_;
    at_.clear();
  }
  stuck_ = false;
}

}  // namespace mnemon
