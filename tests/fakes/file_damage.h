// SPDX-License-Identifier: MIT
// Damage that disks and people do to a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

enum class FileDamage {
  kFlip,     // of one bit
  kRandom,   // 64 random bytes
  kZeros,    // a page of zeros
  kCut,      // the rest is missing
  kRemoval,  // all of it is
};
inline constexpr FileDamage kFileDamages[] = {FileDamage::kFlip, FileDamage::kRandom,
                                              FileDamage::kZeros, FileDamage::kCut,
                                              FileDamage::kRemoval};

constexpr std::string_view FileDamageName(FileDamage damage) {
  constexpr std::string_view kNames[] = {"Flip", "Random", "Zeros", "Cut", "Removal"};
  return kNames[static_cast<int>(damage)];
}

inline std::string ReadText(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// `place`, of any size, determines where the damage is, and which bytes are written.
inline void DamageFile(FileDamage damage, const std::filesystem::path& path,
                       uint64_t place) {
  constexpr size_t kPage = 4096;
  std::string bytes = ReadText(path);
  const size_t at = bytes.empty() ? 0 : place % bytes.size();
  std::mt19937_64 random(place);
  switch (damage) {
    case FileDamage::kFlip:
      if (!bytes.empty())
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case FileDamage::kRandom:
      for (size_t i = at; i < std::min(bytes.size(), at + 64); ++i) {
        bytes[i] = static_cast<char>(random());
      }
      break;
    case FileDamage::kZeros: {
      const size_t page = at / kPage * kPage;
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(page),
                bytes.begin() +
                    static_cast<std::ptrdiff_t>(std::min(bytes.size(), page + kPage)),
                '\0');
      break;
    }
    case FileDamage::kCut:
      bytes.resize(at);
      break;
    case FileDamage::kRemoval:
      std::filesystem::remove(path);
      return;
  }
  WriteText(path, bytes);
}

// All files of a folder, by name.
inline std::vector<std::filesystem::path> FilesIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace mnemon
