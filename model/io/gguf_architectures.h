// SPDX-License-Identifier: MIT
// The supported architectures of GGUF files, by general.architecture, and the names of
// their tensors in directories of Hugging Face (constants.py and tensor_mapping.py of
// PyPI's gguf).
#pragma once

#include <span>
#include <string_view>

namespace mnemon {

// A part of a name in the file and in directories.
struct Renamed {
  std::string_view from, to;
};

// Contents of the files of an architecture, and of its directories.
struct GgufArchitecture {
  std::string_view name, model_type, library_class;
  std::span<const Renamed> top;               // outside of layers
  std::span<const Renamed> layer, norms;      // within a layer
  std::string_view layers = "model.layers.";  // prefix of names of layers
  bool learned_positions = false;             // like GPT-2; false: like Llama
  bool turned = false;         // rotary pairs are adjacent rows, not halves
  bool feed_biases = false;    // optional, as in attention
  bool always_biased = false;  // there is no setting for biases
  bool own_windows = false;    // like Gemma 3, whose norms have 1 added
  bool may_slide = false;      // has a setting for windows, which is off
};

// The table.
std::span<const GgufArchitecture> GgufArchitectures();

}  // namespace mnemon
