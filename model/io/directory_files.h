// SPDX-License-Identifier: MIT
// The files that a model's directory has, whoever wrote it, and bytes that they may
// have.
#pragma once

#include <cstdint>

namespace mnemon::directory {

inline constexpr char kConfig[] = "config.json";
inline constexpr char kWeights[] = "model.safetensors";
inline constexpr char kTokenizer[] = "tokenizer.json";
inline constexpr char kTokenizerConfig[] = "tokenizer_config.json";
// Of Hugging Face's libraries alone.
inline constexpr char kGeneration[] = "generation_config.json";
inline constexpr char kChatTemplate[] = "chat_template.jinja";
inline constexpr char kChatTemplateJson[] = "chat_template.json";  // older

inline constexpr int64_t kMaxConfigBytes = 1 << 20;
inline constexpr int64_t kMaxTokenizerBytes = 64 << 20;

}  // namespace mnemon::directory
