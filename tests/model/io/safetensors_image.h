// SPDX-License-Identifier: MIT
// Hand-made safetensors images, right and wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace mnemon {

inline std::string ImageWithLength(uint64_t length, std::string_view rest) {
  std::string image(sizeof(length), '\0');
  std::memcpy(image.data(), &length, sizeof(length));
  return image.append(rest);
}

inline std::string Image(std::string_view header, std::string_view data = {}) {
  return ImageWithLength(header.size(), std::string(header).append(data));
}

}  // namespace mnemon
