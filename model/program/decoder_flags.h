// SPDX-License-Identifier: MIT
// The flags that say how decoders compute, for every command that steps a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/command_line.h"
#include "model/program/make_decoder.h"

namespace mnemon {

struct DecoderFlags {
  std::string decoder = "step";
  std::string precision;  // empty: that of the checkpoint
  std::string target;     // empty: the best of this machine
};

// Adds --decoder, --precision and --target, with what `flags` hold as their defaults.
// `flags` must outlive `app`.
void AddDecoderFlags(Command app, DecoderFlags& flags);

// Adds --max-context: see ServeModelOptions. `max_context` must outlive `app`.
void AddMaxContextFlag(Command app, std::optional<int64_t>& max_context);

// INVALID_ARGUMENT names the flag. `pool` must outlive the decoders.
absl::StatusOr<DecoderOptions> ToDecoderOptions(const DecoderFlags& flags,
                                                ThreadPool& pool);

}  // namespace mnemon
