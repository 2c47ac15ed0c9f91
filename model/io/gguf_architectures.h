// SPDX-License-Identifier: MIT
// The architectures of GGUF files that are read, by general.architecture, and what
// their tensors are called in directories of Hugging Face (constants.py and
// tensor_mapping.py of PyPI's gguf).
#pragma once

#include <span>
#include <string_view>

namespace mnemon {

// A part of a name, in the file and in directories.
struct Renamed {
  std::string_view from, to;
};

// What files of an architecture, and directories, have.
struct GgufArchitecture {
  std::string_view name, model_type, library_class;
  std::span<const Renamed> top;               // without a layer
  std::span<const Renamed> layer, norms;      // within one
  std::string_view layers = "model.layers.";  // what names of layers begin with
  bool learned_positions = false;             // as GPT-2; else as Llama
  bool turned = false;         // rows of queries and keys: neighbours, not halves
  bool feed_biases = false;    // may be, as those of attention
  bool always_biased = false;  // no setting tells of biases
  bool own_windows = false;    // as Gemma 3, whose norms have 1 added
  bool may_slide = false;      // has a setting for it, which is off
};

// The table.
std::span<const GgufArchitecture> GgufArchitectures();

}  // namespace mnemon
