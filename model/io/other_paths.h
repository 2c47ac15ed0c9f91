// SPDX-License-Identifier: MIT
// Errors for paths that lead to no supported model: each names what is there, and what
// to do. Reads kFileKindBytes of files and the names in directories.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mnemon {

// INVALID_ARGUMENT if `path` leads to a regular file; the only file that is a model is
// a GGUF file. OK for directories and if nothing exists.
absl::Status CheckIsDirectory(const std::string& path);

// `status`, that `dir` lacks the file `missing`, or INVALID_ARGUMENT that names what
// `dir` has instead: an adapter, a folder of checkpoints, weights in another format.
absl::Status ExplainMissing(const std::string& dir, std::string_view missing,
                            const absl::Status& status);

// FAILED_PRECONDITION if `dir`, which has no tokenizer.json, has tokenizers in other
// formats; names their files.
absl::Status CheckOtherTokenizers(const std::string& dir);

}  // namespace mnemon
