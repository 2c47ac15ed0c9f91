// SPDX-License-Identifier: MIT
// Beginnings of files of every kind of base/files/file_kind.h, as their programs write
// them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/files/file_kind.h"

namespace mnemon {

using KindAndBeginning = std::pair<FileKind, std::string>;

// Files that FindFileKind recognises; several of some kinds.
std::vector<KindAndBeginning> FilesOfKinds();
// Files that FindJsonKind recognises.
std::vector<KindAndBeginning> JsonOfKinds();

}  // namespace mnemon
