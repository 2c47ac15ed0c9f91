// SPDX-License-Identifier: MIT
#include "bench/wire/frames.h"

namespace mnemon::wire {
namespace {

// Big-endian, as everywhere in HTTP/2.
void AppendNumber(std::string& out, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) {
    out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

std::string Number(uint64_t value, int bytes) {
  std::string out;
  AppendNumber(out, value, bytes);
  return out;
}

// The length of an HPACK string, in a prefix of seven bits: RFC 7541, 5.1.
void AppendLength(std::string& out, size_t length) {
  constexpr size_t kPrefix = 127;
  if (length < kPrefix) {
    out.push_back(static_cast<char>(length));
    return;
  }
  out.push_back(static_cast<char>(kPrefix));
  size_t rest = length - kPrefix;
  for (; rest >= 128; rest /= 128) out.push_back(static_cast<char>(rest % 128 + 128));
  out.push_back(static_cast<char>(rest));
}

}  // namespace

std::string Frame(FrameType type, uint8_t flags, uint32_t stream,
                  std::string_view payload) {
  std::string out;
  out.reserve(kFrameHeaderBytes + payload.size());
  AppendNumber(out, payload.size(), 3);
  out.push_back(static_cast<char>(type));
  out.push_back(static_cast<char>(flags));
  AppendNumber(out, stream, 4);
  out.append(payload);
  return out;
}

std::string Settings(const std::vector<std::pair<uint16_t, uint32_t>>& settings) {
  std::string payload;
  for (const auto& [id, value] : settings) {
    AppendNumber(payload, id, 2);
    AppendNumber(payload, value, 4);
  }
  return Frame(FrameType::kSettings, 0, 0, payload);
}

std::string Reset(uint32_t stream) {
  constexpr uint64_t kCancel = 8;
  return Frame(FrameType::kReset, 0, stream, Number(kCancel, 4));
}

std::string Ping(uint8_t flags) {
  return Frame(FrameType::kPing, flags, 0, std::string(8, 'p'));
}

std::string WindowUpdate(uint32_t stream, uint32_t bytes) {
  return Frame(FrameType::kWindowUpdate, 0, stream, Number(bytes, 4));
}

std::string Priority(uint32_t stream) {
  return Frame(FrameType::kPriority, 0, stream, Number(0, 4) + '\x10');
}

std::string GoAway() { return Frame(FrameType::kGoAway, 0, 0, Number(0, 8)); }

std::string LiteralStart(std::string_view name, size_t value_bytes) {
  std::string out(1, '\0');
  AppendLength(out, name.size());
  out.append(name);
  AppendLength(out, value_bytes);
  return out;
}

std::string Literal(std::string_view name, std::string_view value) {
  return LiteralStart(name, value.size()).append(value);
}

std::string CallBlock(std::string_view path, std::string_view more) {
  std::string block;
  block += Literal(":method", "POST");
  block += Literal(":scheme", "http");
  block += Literal(":path", path);
  block += Literal(":authority", "localhost");
  block += Literal("content-type", "application/grpc");
  block += Literal("te", "trailers");
  block += more;
  return block;
}

std::string GrpcPrefix(uint32_t length) {
  std::string out(1, '\0');
  AppendNumber(out, length, 4);
  return out;
}

std::string GrpcMessage(std::string_view message) {
  return GrpcPrefix(static_cast<uint32_t>(message.size())).append(message);
}

std::string WholeCall(uint32_t stream, std::string_view path,
                      std::string_view message) {
  return Frame(FrameType::kHeaders, kEndHeaders, stream, CallBlock(path)) +
         Frame(FrameType::kData, kEndStream, stream, GrpcMessage(message));
}

}  // namespace mnemon::wire
