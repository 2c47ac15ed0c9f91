// SPDX-License-Identifier: MIT
#include "server/streams/stream_text.h"

namespace mnemon {

void StreamText::Add(std::span<const int32_t> tokens, std::string& text) {
  if (tokenizer_ == nullptr) return;
  for (int32_t token : tokens) {
    if (tokenizer_->special(token)) continue;
    text += stop_.Push(utf8_.Push(tokenizer_->TokenBytes(token)));
  }
}

void StreamText::Skip(std::span<const int32_t> tokens) {
  if (tokenizer_ == nullptr) return;
  for (int32_t token : tokens) {
    if (tokenizer_->special(token)) continue;
    stop_.Push(utf8_.Push(tokenizer_->TokenBytes(token)));
  }
}

void StreamText::Finish(std::string& text) {
  if (tokenizer_ == nullptr) return;
  text += stop_.Push(utf8_.Finish());
  text += stop_.Finish();
}

}  // namespace mnemon
