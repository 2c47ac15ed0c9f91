// SPDX-License-Identifier: MIT
#include "train/fit/sample_text.h"

#include "base/log.h"
#include "model/text/detokenizer.h"

namespace mnemon {

std::string ShowSample(std::string_view sample) {
  Utf8Stream stream;
  std::string text = stream.Push(sample);
  text += stream.Finish();
  std::string shown = "  | ";
  size_t begin = 0;
  while (true) {
    size_t end = text.find('\n', begin);
    shown += EscapeControls(std::string_view(text).substr(begin, end - begin));
    if (end == std::string::npos) return shown;
    shown += "\n  | ";
    begin = end + 1;
  }
}

}  // namespace mnemon
