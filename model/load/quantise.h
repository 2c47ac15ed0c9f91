// SPDX-License-Identifier: MIT
// Conversion of an fp32 checkpoint to int8, with the same numbers as loading it with
// --precision int8.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "model/io/checkpoint.h"

namespace mnemon {

// Input of WriteCheckpoint.
struct QuantisedCheckpoint {
  CheckpointContent content;  // the serving files
  Int8Source source;
  int64_t source_bytes = 0;  // size of the source's model.safetensors
};

// Quantises the checkpoint in `dir`. Errors of ReadModelFiles; FAILED_PRECONDITION if
// it is int8.
absl::StatusOr<QuantisedCheckpoint> QuantiseCheckpoint(const std::string& dir);

}  // namespace mnemon
