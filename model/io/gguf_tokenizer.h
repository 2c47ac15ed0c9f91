// SPDX-License-Identifier: MIT
// The tokenizer of a GGUF file as Hugging Face files: tokenizer.json, which contains in
// full what the GGUF file only names, and tokenizer_config.json.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "model/io/gguf.h"

namespace mnemon {

// Supports tokenizer.ggml.model gpt2 (byte pairs, with merges and a `pre` that names
// how text is cut) and llama (SentencePiece character pairs, whose merges are made from
// scores like in transformers' convert_slow_tokenizer.py). Nothing if the file has no
// tokenizer. UNIMPLEMENTED names another model or `pre`; INVALID_ARGUMENT names the key
// at fault. Consistency is checked by ParseTokenizer.
absl::StatusOr<std::optional<std::string>> GgufTokenizerJson(const Gguf& file);

// The special tokens, and the chat template if there is one. INVALID_ARGUMENT if one of
// them is not UTF-8.
absl::StatusOr<std::string> GgufTokenizerConfig(const Gguf& file);

}  // namespace mnemon
