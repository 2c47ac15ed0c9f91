// SPDX-License-Identifier: MIT
#include "model/text/stop_text.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mnemon {

StopText::StopText(std::vector<std::string> strings) {
  for (std::string& string : strings) {
    MNEMON_CHECK(!string.empty());
    Automaton automaton{.string = std::move(string), .borders = {0, 0}};
    const std::string& s = automaton.string;
    for (size_t n = 1; n < s.size(); ++n) {
      size_t border = automaton.borders[n];
      while (border > 0 && s[border] != s[n]) border = automaton.borders[border];
      automaton.borders.push_back(s[border] == s[n] ? border + 1 : 0);
    }
    automata_.push_back(std::move(automaton));
  }
}

void StopText::Advance(Automaton& automaton, char byte) {
  size_t& matched = automaton.matched;
  while (matched > 0 && automaton.string[matched] != byte) {
    matched = automaton.borders[matched];
  }
  if (automaton.string[matched] == byte) ++matched;
}

std::string StopText::Push(std::string_view text) {
  if (automata_.empty()) return std::string(text);
  if (found_) return "";
  for (const char byte : text) {
    held_ += byte;
    for (Automaton& automaton : automata_) {
      Advance(automaton, byte);
      if (automaton.matched < automaton.string.size()) continue;
      if (!found_ || found_->size() < automaton.string.size()) {
        found_ = automaton.string;
      }
    }
    if (!found_) continue;
    held_.resize(held_.size() - found_->size());
    return std::exchange(held_, {});
  }
  size_t longest = 0;
  for (const Automaton& automaton : automata_) {
    longest = std::max(longest, automaton.matched);
  }
  std::string free = held_.substr(0, held_.size() - longest);
  held_.erase(0, free.size());
  return free;
}

std::string StopText::Finish() { return std::exchange(held_, {}); }

}  // namespace mnemon
