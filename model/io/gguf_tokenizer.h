// SPDX-License-Identifier: MIT
// The tokenizer of a GGUF file as the files of Hugging Face: tokenizer.json, which says
// in full what the file has names for, and tokenizer_config.json.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "model/io/gguf.h"

namespace mnemon {

// tokenizer.ggml.model gpt2: pairs of bytes, with merges and a `pre` that names how
// text is cut; llama: SentencePiece's pairs of characters, whose merges are made of
// scores as transformers' convert_slow_tokenizer.py makes them. Nothing where the file
// has no tokenizer. UNIMPLEMENTED names another model or `pre`; INVALID_ARGUMENT names
// the key at fault. Whether all of it fits together, ParseTokenizer tells.
absl::StatusOr<std::optional<std::string>> GgufTokenizerJson(const Gguf& file);

// The special tokens, and the chat template where there is one. INVALID_ARGUMENT where
// one of them is not UTF-8.
absl::StatusOr<std::string> GgufTokenizerConfig(const Gguf& file);

}  // namespace mnemon
