// SPDX-License-Identifier: MIT
#include "client/terminal/logprob_lines.h"

#include "absl/strings/str_format.h"

namespace mnemon::client {

std::string LogprobLines(std::span<const TokenLogprobs> tokens) {
  std::string lines;
  for (const TokenLogprobs& token : tokens) {
    absl::StrAppendFormat(&lines, "%d %d %.6f", token.index, token.token,
                          token.logprob);
    for (const TokenCandidate& candidate : token.candidates) {
      absl::StrAppendFormat(&lines, " %d:%.6f", candidate.token, candidate.logprob);
    }
    lines += '\n';
  }
  return lines;
}

}  // namespace mnemon::client
