// SPDX-License-Identifier: MIT
// manifest.json: size and hash of every other file of a checkpoint, and the source of
// an int8 checkpoint. See docs/checkpoint_format.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

inline constexpr char kManifest[] = "manifest.json";

// The fp32 source of an int8 checkpoint.
struct Int8Source {
  std::string model_id;
  std::string weights_sha256;  // of its model.safetensors
};

struct ManifestEntry {
  std::string sha256;
  int64_t bytes = 0;
};

struct Manifest {
  std::map<std::string, ManifestEntry> files;  // by name
  std::optional<Int8Source> source;            // none: the weights are fp32
};

// Errors name `path`: INVALID_ARGUMENT, and FAILED_PRECONDITION for a newer format.
absl::StatusOr<Manifest> ParseManifest(std::string_view text, const std::string& path);

std::string FormatManifest(const Manifest& manifest);

}  // namespace mnemon
