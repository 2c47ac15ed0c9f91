// SPDX-License-Identifier: MIT
// HTTP/2 frames (RFC 9113) and gRPC requests as bytes, without a library, which would
// refuse to write what no client should send.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mnemon::wire {

enum class FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9
};

// Flags, with the frame types that have them.
inline constexpr uint8_t kAck = 0x1;         // SETTINGS, PING
inline constexpr uint8_t kEndStream = 0x1;   // DATA, HEADERS
inline constexpr uint8_t kEndHeaders = 0x4;  // HEADERS, CONTINUATION

inline constexpr size_t kFrameHeaderBytes = 9;
inline constexpr size_t kMaxFrameBytes =
    16384;                                      // of a payload, unless agreed otherwise
inline constexpr int64_t kFirstWindow = 65535;  // of a connection and of each stream
inline constexpr uint16_t kInitialWindowSetting = 4;
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Checks nothing: any payload goes with any type.
std::string Frame(FrameType type, uint8_t flags, uint32_t stream,
                  std::string_view payload);

std::string Settings(const std::vector<std::pair<uint16_t, uint32_t>>& settings);
std::string Reset(uint32_t stream);
std::string Ping(uint8_t flags);
std::string WindowUpdate(uint32_t stream, uint32_t bytes);
std::string Priority(uint32_t stream);
std::string GoAway();

// A field of a header block: a literal without indexing or Huffman code.
std::string Literal(std::string_view name, std::string_view value);
// The same up to the value, whose length it includes.
std::string LiteralStart(std::string_view name, size_t value_bytes);
// The header block of a gRPC call of `path`; `more` are further fields.
std::string CallBlock(std::string_view path, std::string_view more = {});
// A message with gRPC's prefix of five bytes; a prefix alone can claim any length.
std::string GrpcMessage(std::string_view message);
std::string GrpcPrefix(uint32_t length);

// HEADERS of a call and its only message, which must be short, with END_STREAM.
std::string WholeCall(uint32_t stream, std::string_view path, std::string_view message);

}  // namespace mnemon::wire
