// SPDX-License-Identifier: MIT
// A token is, in Base64 for URLs: the hash of filter and order, the values of the
// order's fields, the id, the checksum of all before. Numbers have 8 bytes, texts 2
// bytes of length before them; bytes of numbers come lowest first. A value has its
// index in FieldValue before it.
#include "server/sessions/listing/session_page_token.h"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/resource_id.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// More than the longest one takes: kMaxFields texts of 1 KiB.
constexpr size_t kMaxTokenBytes = 8192;
constexpr size_t kHashBytes = 16;

std::string ShortHash(std::string_view bytes) {
  return Sha256Hex(bytes).substr(0, kHashBytes);
}

std::string HashOf(std::string_view filter, const SessionOrder& order) {
  return ShortHash(StrCat(order.text(), "\n", filter));
}

class TokenWriter {
 public:
  explicit TokenWriter(std::string bytes) : bytes_(std::move(bytes)) {}

  void Number(uint64_t number, size_t width = 8) {
    for (size_t i = 0; i < width; ++i) {
      bytes_ += static_cast<char>(number >> (8 * i) & 0xff);
    }
  }
  void Text(std::string_view text) {
    Number(text.size(), 2);
    bytes_ += text;
  }
  void operator()(int64_t number) { Number(static_cast<uint64_t>(number)); }
  void operator()(const Instant& time) {
    Number(static_cast<uint64_t>(time.seconds));
    Number(static_cast<uint64_t>(time.nanos));
  }
  void operator()(const std::string& text) { Text(text); }
  void operator()(const Absent&) {}

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

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
  TokenWriter writer(HashOf(filter, order));
  for (const FieldValue& value : place.values) {
    writer.Number(value.index(), 1);
    std::visit(writer, value);
  }
  writer.Text(place.id);
  return absl::WebSafeBase64Escape(StrCat(writer.bytes(), ShortHash(writer.bytes())));
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

}  // namespace mnemon
