// SPDX-License-Identifier: MIT
// A reader of TensorBoard's event files that checks all framing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;                   // only in the first event
  std::map<std::string, float> scalars;  // by tag
  std::map<std::string, std::string> texts;
};

// Fails the test if lengths, checksums or fields are not as documented.
std::vector<ReadEvent> ReadEvents(std::string_view file);

}  // namespace mnemon
