// SPDX-License-Identifier: MIT
#include "server/state/dead_key_filter.h"

#include <chrono>
#include <string>
#include <utility>

#include "server/state/store_key.h"

namespace mnemon {
namespace {

class DeadKeyFilter final : public rocksdb::CompactionFilter {
 public:
  DeadKeyFilter(StoreTable table, std::shared_ptr<const LiveSessions> live)
      : table_(table),
        live_(std::move(live)),
        now_ms_(std::chrono::duration_cast<std::chrono::milliseconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count()) {}

  const char* Name() const override { return "mnemon.DeadKeyFilter"; }

  Decision FilterV2(int level, const rocksdb::Slice& key, ValueType type,
                    const rocksdb::Slice& value, std::string* changed,
                    std::string* skip_until) const override {
    if (table_ == StoreTable::kSessions) {
      if (type != ValueType::kValue) return Decision::kKeep;
      const int64_t expiry = ExpiryOfRecord({value.data(), value.size()});
      if (expiry == 0 || expiry > now_ms_) return Decision::kKeep;
    }
    return IsLive({key.data(), key.size()}) ? Decision::kKeep : Decision::kRemove;
  }

  // Snapshots are dropped without reading them.
  Decision FilterBlobByKey(int level, const rocksdb::Slice& key, std::string* changed,
                           std::string* skip_until) const override {
    if (table_ == StoreTable::kSessions) return Decision::kUndetermined;
    return IsLive({key.data(), key.size()}) ? Decision::kKeep : Decision::kRemove;
  }

 private:
  // A key that is not understood is kept, and so is one in doubt.
  bool IsLive(std::string_view key) const {
    try {
      const std::optional<StoreKeyParts> parts = SplitStoreKey(table_, key);
      return !parts || live_->Contains(parts->id);
    } catch (const std::exception&) {
      return true;
    }
  }

  const StoreTable table_;
  const std::shared_ptr<const LiveSessions> live_;
  const int64_t now_ms_;
};

class DeadKeyFilters final : public rocksdb::CompactionFilterFactory {
 public:
  DeadKeyFilters(StoreTable table, std::shared_ptr<const LiveSessions> live)
      : table_(table), live_(std::move(live)) {}

  const char* Name() const override { return "mnemon.DeadKeyFilters"; }

  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& context) override {
    return std::make_unique<DeadKeyFilter>(table_, live_);
  }

 private:
  const StoreTable table_;
  const std::shared_ptr<const LiveSessions> live_;
};

}  // namespace

void LiveSessions::Set(Live live) {
  std::lock_guard lock(mutex_);
  live_ = std::move(live);
}

bool LiveSessions::Contains(std::string_view id) const {
  std::lock_guard lock(mutex_);
  return live_ == nullptr || live_(id);
}

std::shared_ptr<rocksdb::CompactionFilterFactory> MakeDeadKeyFilters(
    StoreTable table, std::shared_ptr<const LiveSessions> live) {
  return std::make_shared<DeadKeyFilters>(table, std::move(live));
}

}  // namespace mnemon
