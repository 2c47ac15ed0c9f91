// SPDX-License-Identifier: MIT
// A block of a table that is damaged takes its keys along. Where it ends only its
// file's index knows: the first key behind it is found by halving.
#include "server/store/damaged_keys.h"

#include <algorithm>
#include <array>

#include "server/store/store_status.h"

namespace mnemon {
namespace {

// Keys as fractions: longer than any key that differs from its neighbours.
constexpr size_t kDigits = 96;
using Fraction = std::array<unsigned char, kDigits>;

Fraction FractionOf(const std::string& key) {
  Fraction fraction{};
  for (size_t i = 0; i < std::min(kDigits, key.size()); ++i) {
    fraction[i] = static_cast<unsigned char>(key[i]);
  }
  return fraction;
}

std::string KeyOf(const Fraction& fraction) {
  return {reinterpret_cast<const char*>(fraction.data()), kDigits};
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

}  // namespace

bool IsDamage(const rocksdb::Status& status) {
  return status.IsCorruption() || status.IsPathNotFound() || status.IsNotSupported() ||
         (status.IsIOError() && !LackedResources(status));
}

std::string FirstReadable(StoreCopy& copy, StoreTable table, const StoreKeySpan& span) {
  const rocksdb::Slice end = span.end;
  const auto can_read = [&](const std::string& from, std::string* first) {
    const auto at = copy.Iterate(table, end);
    at->Seek(from);
    if (!at->status().ok()) return false;
    if (first != nullptr) *first = at->Valid() ? at->key().ToString() : span.end;
    return true;
  };
  Fraction low = FractionOf(span.begin), high = FractionOf(span.end);
  while (true) {
    const Fraction middle = Middle(low, high);
    if (middle == low) break;
    (can_read(KeyOf(middle), nullptr) ? high : low) = middle;
  }
  std::string first = span.end;
  return can_read(KeyOf(high), &first) ? first : span.end;
}

UnreadableRange UnreadableBetween(StoreTable table, const std::string& from,
                                  const std::string& next, const std::string& end) {
  UnreadableRange range;
  // The last key that was visited, without the byte that was put behind it.
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

}  // namespace mnemon
