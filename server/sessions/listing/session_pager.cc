// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_pager.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/resource_id.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// A token is, in Base64 for URLs: the hash of filter and order, the values of the
// order's fields, the id, the checksum of all before. Numbers have 8 bytes, texts 2
// bytes of length before them; bytes of numbers come lowest first. A value has its
// index in FieldValue before it.
// More than the longest one takes: kMaxFields texts of 1 KiB.
constexpr size_t kMaxTokenBytes = 8192;
constexpr size_t kHashBytes = 16;

std::string ShortHash(std::string_view bytes) {
  return Sha256Hex(bytes).substr(0, kHashBytes);
}

std::string HashOf(std::string_view filter, const SessionOrder& order) {
  return ShortHash(StrCat(order.text(), "\n", filter));
}

void AppendNumber(std::string& to, auto number, size_t width = 8) {
  for (size_t i = 0; i < width; ++i) {
    to += static_cast<char>(static_cast<uint64_t>(number) >> (8 * i) & 0xff);
  }
}

void AppendText(std::string& to, std::string_view text) {
  AppendNumber(to, text.size(), 2);
  to += text;
}

// After a fault all reads give nothing of use, and good() is false.
class TokenReader {
 public:
  explicit TokenReader(std::string_view bytes) : left_(bytes) {}

  std::string_view Bytes(size_t count) {
    good_ = good_ && count <= left_.size();
    if (!good_) return {};
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }
  uint64_t Number(size_t width = 8) {
    uint64_t number = 0;
    size_t shift = 0;
    for (const char byte : Bytes(width)) {
      number |= uint64_t{static_cast<unsigned char>(byte)} << shift;
      shift += 8;
    }
    return number;
  }
  std::string Text() { return std::string(Bytes(Number(2))); }
  FieldValue Value(SessionField::Type type) {
    using Type = SessionField::Type;
    const size_t expected = type == Type::kText ? 2 : type == Type::kTime ? 1 : 0;
    const size_t index = Number(1);
    if (index == 3 && type == Type::kTime) return Absent();
    good_ = good_ && index == expected;
    if (index == 2) return Text();
    const auto number = static_cast<int64_t>(Number());
    if (index == 0) return number;
    return Instant{.seconds = number, .nanos = static_cast<int32_t>(Number())};
  }
  bool good() const { return good_; }
  bool ended() const { return good_ && left_.empty(); }

 private:
  std::string_view left_;
  bool good_ = true;
};

// Without the checksum, where `token` has the right one.
std::optional<std::string> OpenToken(std::string_view token) {
  if (token.size() > kMaxTokenBytes) return std::nullopt;
  std::string bytes;
  if (!absl::WebSafeBase64Unescape({token.data(), token.size()}, &bytes) ||
      bytes.size() < kHashBytes) {
    return std::nullopt;
  }
  const size_t end = bytes.size() - kHashBytes;
  const bool whole = bytes.substr(end) == ShortHash(bytes.substr(0, end));
  bytes.resize(end);
  return whole ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace

std::string PageToken(const SessionOrder::Place& place, std::string_view filter,
                      const SessionOrder& order) {
  std::string bytes = HashOf(filter, order);
  for (const FieldValue& value : place.values) {
    AppendNumber(bytes, value.index(), 1);
    if (const auto* number = std::get_if<int64_t>(&value)) AppendNumber(bytes, *number);
    if (const auto* text = std::get_if<std::string>(&value)) AppendText(bytes, *text);
    if (const auto* time = std::get_if<Instant>(&value)) {
      AppendNumber(bytes, time->seconds);
      AppendNumber(bytes, time->nanos);
    }
  }
  AppendText(bytes, place.id);
  return absl::WebSafeBase64Escape(StrCat(bytes, ShortHash(bytes)));
}

absl::StatusOr<SessionOrder::Place> ParsePageToken(std::string_view token,
                                                   std::string_view filter,
                                                   const SessionOrder& order) {
  const std::optional<std::string> bytes = OpenToken(token);
  SessionOrder::Place place;
  if (bytes) {
    TokenReader reader(*bytes);
    if (reader.Bytes(kHashBytes) != HashOf(filter, order) && reader.good()) {
      return InvalidField("page_token",
                          "page_token was made for another filter or order_by");
    }
    for (const SessionOrder::Key& key : order.keys()) {
      place.values.push_back(reader.Value(key.field->type));
    }
    place.id = reader.Text();
    if (reader.ended() && IsResourceId(place.id)) return place;
  }
  return InvalidField("page_token", StrCat("not a page token: ", Quoted(token)));
}

absl::StatusOr<SessionPager> SessionPager::Parse(const ListSessionsRequest& request) {
  const int32_t size = request.page_size;
  if (size < 0) {
    return InvalidField("page_size",
                        StrCat("page_size must not be negative, got ", size));
  }
  SessionPager pager;
  pager.page_size_ = std::min(size == 0 ? kPageSize : size, kMaxPageSize);
  MNEMON_ASSIGN_OR_RETURN(pager.filter_, SessionFilter::Parse(request.filter));
  MNEMON_ASSIGN_OR_RETURN(pager.order_, SessionOrder::Parse(request.order_by));
  pager.filter_text_ = request.filter;
  pager.ids_ = pager.filter_.ids();
  if (!request.page_token.empty()) {
    MNEMON_ASSIGN_OR_RETURN(
        pager.after_, ParsePageToken(request.page_token, request.filter, pager.order_));
    if (pager.by_name()) {
      pager.ids_.begin = std::max(pager.ids_.begin, pager.after_.id + '\0');
    }
  }
  return pager;
}

void SessionPager::Add(SessionFacts facts) {
  if (complete() || !filter_.Matches(facts)) return;
  SessionOrder::Place place = order_.PlaceOf(facts);
  if (place.id == after_.id) return;
  if (!after_.id.empty() && !order_.Before(after_, place)) return;
  if (!by_name() && entries_.size() > page_size_) {
    if (!order_.Before(place, entries_.front().place)) return;
    std::pop_heap(entries_.begin(), entries_.end(), Before());
    entries_.pop_back();
  }
  entries_.push_back({std::move(place), std::move(facts)});
  if (!by_name()) std::push_heap(entries_.begin(), entries_.end(), Before());
}

SessionPage SessionPager::Take() {
  if (!by_name()) std::sort_heap(entries_.begin(), entries_.end(), Before());
  SessionPage page;
  if (entries_.size() > page_size_) {
    entries_.pop_back();
    page.next_page_token = PageToken(entries_.back().place, filter_text_, order_);
  }
  page.sessions.reserve(entries_.size());
  for (Entry& entry : entries_) page.sessions.push_back(std::move(entry.facts));
  entries_.clear();
  return page;
}

}  // namespace mnemon
