// SPDX-License-Identifier: MIT
// tokenizer.json of any kind is refused with a message, or makes a tokenizer whose ids
// are all usable, whose texts come back, and which our own writer can write again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "model/text/detokenizer.h"
#include "model/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mnemon;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = ParseTokenizer(text);
  if (!tokenizer.ok()) {
    MNEMON_CHECK(!tokenizer.status().message().empty());
    // The input as a text, which is hostile too.
    const auto ids = MakeByteTokenizer()->Encode(text);
    MNEMON_CHECK(ids.ok() && ids->size() == size);
    Utf8Stream stream;
    (void)stream.Push(text);
    (void)stream.Finish();
    return 0;
  }
  const int32_t count = (*tokenizer)->size();
  MNEMON_CHECK(count > 0);
  std::vector<int32_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  const auto decoded = (*tokenizer)->Decode(all);
  MNEMON_CHECK(decoded.ok());
  if ((*tokenizer)->Describe().starts_with("byte pairs")) {
    // Many texts of tokens are those of others, too; an expression may take too long.
    const auto ids = (*tokenizer)->EncodeWhole((*tokenizer)->DecodeText(all, true));
    for (const int32_t id : ids.value_or(std::vector<int32_t>{})) {
      MNEMON_CHECK(id >= 0 && id < count);
    }
    (void)(*tokenizer)->Encode(text);
  } else {
    const auto encoded = (*tokenizer)->Encode(*decoded);
    MNEMON_CHECK(encoded.ok() && *encoded == all);
  }
  MNEMON_CHECK(!(*tokenizer)->Decode(std::vector<int32_t>{count}).ok());
  MNEMON_CHECK(!(*tokenizer)->Decode(std::vector<int32_t>{-1}).ok());
  const auto again = ParseTokenizer((*tokenizer)->ToJson());
  MNEMON_CHECK(again.ok() && (*again)->size() == count);
  return 0;
}
