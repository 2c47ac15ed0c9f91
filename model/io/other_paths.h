// SPDX-License-Identifier: MIT
// Paths that lead to no model that is read: each error names what is there, and what to
// do. Of files kFileKindBytes are read, of directories the names.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mnemon {

// INVALID_ARGUMENT where `path` leads to a regular file, which no model but a GGUF file
// is. OK for directories and for what is not there.
absl::Status CheckIsDirectory(const std::string& path);

// `status`, that `dir` lacks the file `missing`, or INVALID_ARGUMENT that names what
// `dir` has instead: an adapter, a folder of checkpoints, weights in another format.
absl::Status ExplainMissing(const std::string& dir, std::string_view missing,
                            const absl::Status& status);

// FAILED_PRECONDITION where `dir`, which has no tokenizer.json, has files of tokenizers
// of other formats, which it names.
absl::Status CheckOtherTokenizers(const std::string& dir);

}  // namespace mnemon
