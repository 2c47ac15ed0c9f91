// SPDX-License-Identifier: MIT
// The numeric fields of sampling, with their names in the API.
#pragma once

namespace mnemon::client {

// Calls `visit(name, field)` for each; `Options` is SamplingOptions, const or not.
template <class Options, class Visitor>
void VisitSampling(Options& options, Visitor&& visit) {
  visit("temperature", options.temperature);
  visit("top_k", options.top_k);
  visit("top_p", options.top_p);
  visit("min_p", options.min_p);
  visit("typical_p", options.typical_p);
  visit("repetition_penalty", options.repetition_penalty);
  visit("frequency_penalty", options.frequency_penalty);
  visit("presence_penalty", options.presence_penalty);
  visit("penalty_window_tokens", options.penalty_window_tokens);
  visit("seed", options.seed);
}

}  // namespace mnemon::client
