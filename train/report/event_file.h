// SPDX-License-Identifier: MIT
// A TensorBoard event file in memory: TFRecord records, each an Event of
// tensorflow/core/util/event.proto in the encoding of Protocol Buffers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mnemon {

struct Scalar {
  std::string_view tag;
  double value = 0;  // kept as a float
};

// The time of an event.
struct EventTime {
  double wall_time = 0;  // Unix time in seconds
  int64_t step = 0;
};

class EventFile {
 public:
  // Begins with the record of the format's version.
  explicit EventFile(double wall_time);

  void AddScalars(const EventTime& time, std::span<const Scalar> scalars);
  // REQUIRES: valid UTF-8.
  void AddText(const EventTime& time, std::string_view tag, std::string_view text);

  const std::string& bytes() const { return bytes_; }

 private:
  void AddRecord(std::string_view event);

  std::string bytes_;
};

// CRC-32C (Castagnoli) of `bytes`.
uint32_t Crc32c(std::string_view bytes);

// The CRC-32C in the masked form that TFRecord stores.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace mnemon
