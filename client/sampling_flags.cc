// SPDX-License-Identifier: MIT
#include "client/sampling_flags.h"

#include "base/log.h"

namespace mnemon::client {

void AddServerFlag(Command command, ClientOptions& options) {
  command.Add("--server", &options.server, "Address of the server, HOST:PORT");
}

void AddSamplingFlags(Command command, GenerateOptions& options) {
  options.max_tokens = kDefaultMaxTokens;
  command.Add("--max-tokens", &options.max_tokens, "Tokens to generate at most");
  command.Add("--temperature", &options.temperature,
              "0 = greedy; default 1, the model's own distribution");
  command.Add("--top-k", &options.top_k, "Keep the k most likely tokens; 0 = all");
  command.Add("--top-p", &options.top_p,
              "Keep the smallest set of tokens of this probability");
  command.Add("--seed", &options.seed,
              "Same seed, same text; default: drawn by the server");
}

std::string ForTerminal(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t keep = text.find_first_of("\n\t");
    shown += EscapeControls(text.substr(0, keep));
    if (keep == std::string_view::npos) break;
    shown.push_back(text[keep]);
    text.remove_prefix(keep + 1);
  }
  return shown;
}

}  // namespace mnemon::client
