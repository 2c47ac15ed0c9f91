// SPDX-License-Identifier: MIT
// Small models with random weights, one of each architecture that generates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mnemon {

struct TestedModel {
  std::string name;     // the architecture's, with '-'
  std::string path;     // of the checkpoint
  int64_t vocab = 0;    // V
  std::string letters;  // that its texts and stop strings are made of
};

// Writes their checkpoints below `directory`. Two have a token for each byte, so that
// characters come in parts. Fails the test on an error.
std::vector<TestedModel> WriteTestedModels(const std::string& directory);

}  // namespace mnemon
