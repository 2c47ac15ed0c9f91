// SPDX-License-Identifier: MIT
// The int8 form of an fp32 checkpoint: the numbers that loading it with --precision
// int8 makes, as a file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "model/io/checkpoint.h"

namespace mnemon {

// For WriteCheckpoint.
struct QuantisedCheckpoint {
  CheckpointContent content;  // the serving files
  Int8Source source;
  int64_t source_bytes = 0;  // of the source's model.safetensors
};

// Of the checkpoint in `dir`. The errors of ReadModelFiles; FAILED_PRECONDITION when it
// is an int8 one.
absl::StatusOr<QuantisedCheckpoint> QuantiseCheckpoint(const std::string& dir);

}  // namespace mnemon
