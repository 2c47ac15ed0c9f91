// SPDX-License-Identifier: MIT
// Flags for how decoders compute, shared by all commands that step a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/process/command_line.h"
#include "model/program/make_decoder.h"

namespace mnemon {

struct DecoderFlags {
  std::string decoder = "step";
  std::string precision;  // empty: as in the checkpoint
  std::string target;     // empty: the best on this machine
};

// Adds --decoder, --precision and --target with the values in `flags` as defaults.
// `flags` must outlive `app`.
void AddDecoderFlags(Command app, DecoderFlags& flags);

// Adds --max-context: see ServeModelOptions. `max_context` must outlive `app`.
void AddMaxContextFlag(Command app, std::optional<int64_t>& max_context);

// `pool` must outlive the decoders. INVALID_ARGUMENT names the flag.
absl::StatusOr<DecoderOptions> ToDecoderOptions(const DecoderFlags& flags,
                                                ThreadPool& pool);

}  // namespace mnemon
