// SPDX-License-Identifier: MIT
// config.json of any kind is refused with a message, or describes a model in bounds and
// comes back the same from our own writer.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "model/families/config.h"
#include "model/families/families.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mnemon;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = ParseConfig(text);
  if (!config.ok()) {
    MNEMON_CHECK(!config.status().message().empty());
    return 0;
  }
  // Valid or not, never undefined behaviour.
  (void)DescribeModel(*config);
  const auto again = ParseConfig(ConfigToJson(*config));
  MNEMON_CHECK(again.ok() && *again == *config);
  return 0;
}
