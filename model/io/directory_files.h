// SPDX-License-Identifier: MIT
// Names of the files in a model directory of any origin, and their size limits.
#pragma once

#include <cstdint>

namespace mnemon::directory {

inline constexpr char kConfig[] = "config.json";
inline constexpr char kWeights[] = "model.safetensors";
inline constexpr char kTokenizer[] = "tokenizer.json";
inline constexpr char kTokenizerConfig[] = "tokenizer_config.json";
// Only in directories of Hugging Face's libraries.
inline constexpr char kGeneration[] = "generation_config.json";
inline constexpr char kChatTemplate[] = "chat_template.jinja";
inline constexpr char kChatTemplateJson[] = "chat_template.json";  // older

inline constexpr int64_t kMaxConfigBytes = 1 << 20;
inline constexpr int64_t kMaxTokenizerBytes = 64 << 20;

}  // namespace mnemon::directory
