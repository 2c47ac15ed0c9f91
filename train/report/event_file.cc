// SPDX-License-Identifier: MIT
#include "train/report/event_file.h"

#include <array>
#include <bit>
#include <type_traits>

namespace mnemon {
namespace {

// Field numbers of event.proto, summary.proto, tensor.proto and tensor_shape.proto.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventVersion = 3, kEventSummary = 5;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1, kValueScalar = 2, kValueTensor = 8, kValueMetadata = 9;
constexpr int kMetadataPlugin = 1, kPluginName = 1;
constexpr int kTensorType = 1, kTensorShape = 2, kTensorStrings = 8;
constexpr int kShapeDimension = 2, kDimensionSize = 1;
constexpr uint64_t kStringType = 7;

// Little-endian on every machine.
template <class Number>
std::string Fixed(Number number) {
  using Bits = std::conditional_t<sizeof(Number) == 8, uint64_t, uint32_t>;
  const auto bits = std::bit_cast<Bits>(number);
  std::string bytes;
  for (size_t i = 0; i < sizeof(Bits); ++i) {
    bytes += static_cast<char>((bits >> (8 * i)) & 0xff);
  }
  return bytes;
}

std::string Varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes += static_cast<char>(number);
}

enum WireType { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

std::string Key(int field, WireType type) {
  return Varint(static_cast<uint64_t>(field) << 3 | type);
}
std::string Field(int field, uint64_t value) {
  return Key(field, kVarint) + Varint(value);
}
std::string Field(int field, double value) {
  return Key(field, kFixed64) + Fixed(value);
}
std::string Field(int field, float value) {
  return Key(field, kFixed32) + Fixed(value);
}
std::string Field(int field, std::string_view bytes) {
  return Key(field, kLengthDelimited) + Varint(bytes.size()) + std::string(bytes);
}

std::string Event(const EventTime& time, std::string_view summary) {
  return Field(kEventWallTime, time.wall_time) +
         Field(kEventStep, static_cast<uint64_t>(time.step)) +
         Field(kEventSummary, summary);
}

}  // namespace

EventFile::EventFile(double wall_time) {
  AddRecord(Field(kEventWallTime, wall_time) +
            Field(kEventVersion, std::string_view("brain.Event:2")));
}

void EventFile::AddScalars(const EventTime& time, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    summary +=
        Field(kSummaryValue, Field(kValueTag, scalar.tag) +
                                 Field(kValueScalar, static_cast<float>(scalar.value)));
  }
  AddRecord(Event(time, summary));
}

void EventFile::AddText(const EventTime& time, std::string_view tag,
                        std::string_view text) {
  const std::string plugin = Field(kPluginName, std::string_view("text"));
  const std::string dimension = Field(kDimensionSize, uint64_t{1});
  const std::string tensor = Field(kTensorType, kStringType) +
                             Field(kTensorShape, Field(kShapeDimension, dimension)) +
                             Field(kTensorStrings, text);
  AddRecord(Event(
      time,
      Field(kSummaryValue, Field(kValueTag, tag) + Field(kValueTensor, tensor) +
                               Field(kValueMetadata, Field(kMetadataPlugin, plugin)))));
}

void EventFile::AddRecord(std::string_view event) {
  const std::string length = Fixed(static_cast<uint64_t>(event.size()));
  bytes_ += length;
  bytes_ += Fixed(MaskedCrc32c(length));
  bytes_ += event;
  bytes_ += Fixed(MaskedCrc32c(event));
}

uint32_t Crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < table.size(); ++i) {
      uint32_t rest = i;
      for (int bit = 0; bit < 8; ++bit) {
        rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0x82f63b78u : 0u);
      }
      table[i] = rest;
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xa282ead8u;
}

}  // namespace mnemon
