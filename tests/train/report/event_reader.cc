// SPDX-License-Identifier: MIT
#include "tests/train/report/event_reader.h"

#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

template <class Number>
Number Plain(std::string_view bytes) {
  Number number{};
  EXPECT_GE(bytes.size(), sizeof(Number));
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof(Number)));
  return number;
}

// Bit by bit, as RFC 3720 defines it; not the table of what is tested.
uint32_t SlowMaskedCrc(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int i = 0; i < 8; ++i)
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

uint64_t TakeVarint(std::string_view& bytes) {
  uint64_t number = 0;
  for (int shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
  ADD_FAILURE() << "a number without an end";
  return 0;
}

// Field number -> its values, raw: of varints 8 bytes.
std::multimap<int, std::string> Fields(std::string_view message) {
  std::multimap<int, std::string> fields;
  while (!message.empty()) {
    const uint64_t key = TakeVarint(message);
    size_t size = 0;
    std::string value;
    switch (key & 7) {
      case 0: {
        const uint64_t number = TakeVarint(message);
        value.assign(reinterpret_cast<const char*>(&number), sizeof(number));
        break;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = TakeVarint(message);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    if (size > message.size()) {
      ADD_FAILURE() << "a field is cut off";
      return fields;
    }
    if ((key & 7) != 0) value = message.substr(0, size);
    message.remove_prefix(size);
    fields.emplace(static_cast<int>(key >> 3), value);
  }
  return fields;
}

std::string Only(const std::multimap<int, std::string>& fields, int number) {
  EXPECT_EQ(fields.count(number), 1u) << number;
  const auto at = fields.find(number);
  return at == fields.end() ? std::string(8, '\0') : at->second;
}

void ReadValue(std::string_view bytes, ReadEvent& event) {
  const auto value = Fields(bytes);
  const std::string tag = Only(value, 1);
  if (value.contains(2)) {
    event.scalars[tag] = Plain<float>(Only(value, 2));
    return;
  }
  const auto plugin = Fields(Only(Fields(Only(value, 9)), 1));
  EXPECT_EQ(Only(plugin, 1), "text");
  const auto tensor = Fields(Only(value, 8));
  EXPECT_EQ(Plain<uint64_t>(Only(tensor, 1)), 7u) << "strings";
  EXPECT_EQ(Plain<uint64_t>(Only(Fields(Only(Fields(Only(tensor, 2)), 2)), 1)), 1u);
  event.texts[tag] = Only(tensor, 8);
}

}  // namespace

std::vector<ReadEvent> ReadEvents(std::string_view file) {
  std::vector<ReadEvent> events;
  while (!file.empty()) {
    const auto length = Plain<uint64_t>(file);
    if (file.size() < 16 || length > file.size() - 16) {
      ADD_FAILURE() << "a record is cut off";
      break;
    }
    EXPECT_EQ(Plain<uint32_t>(file.substr(8)), SlowMaskedCrc(file.substr(0, 8)));
    const std::string_view data = file.substr(12, length);
    EXPECT_EQ(Plain<uint32_t>(file.substr(12 + length)), SlowMaskedCrc(data));
    file.remove_prefix(16 + length);
    const auto fields = Fields(data);
    ReadEvent& event = events.emplace_back();
    event.wall_time = Plain<double>(Only(fields, 1));
    if (fields.contains(3)) {
      event.version = Only(fields, 3);
      continue;
    }
    event.step = Plain<int64_t>(Only(fields, 2));
    const auto summary = Fields(Only(fields, 5));
    for (const auto& [number, value] : summary) {
      EXPECT_EQ(number, 1);
      ReadValue(value, event);
    }
  }
  return events;
}

}  // namespace mnemon
