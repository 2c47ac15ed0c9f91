// SPDX-License-Identifier: MIT
// A chat template of any kind is refused with a message, or makes a text of any
// variables within its limits, or tells why not. Input: the template, and after a NUL
// the variables as JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "model/text/jinja/template.h"
#include "nlohmann/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mnemon;
  using nlohmann::ordered_json;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const auto chat = JinjaTemplate::Parse(input.substr(0, cut), "fuzz");
  if (!chat.ok()) {
    MNEMON_CHECK(!chat.status().message().empty());
    return 0;
  }
  ordered_json variables;
  if (cut != std::string_view::npos) {
    variables = ordered_json::parse(input.substr(cut + 1), nullptr,
                                    /*allow_exceptions=*/false);
  }
  if (!variables.is_object()) {
    variables = {{"messages",
                  {{{"role", "user"}, {"content", "\u00e9 <b> 1.5"}},
                   {{"role", "assistant"}, {"content", nullptr}, {"n", 2.5}}}},
                 {"tools", nullptr},
                 {"bos_token", "<s>"},
                 {"d", {{"k", {1, "two", 3.0, false}}}}};
  }
  // So many that an input takes no time.
  constexpr int64_t kSteps = 100'000;
  const auto text =
      chat->Render(variables, absl::CivilSecond(2026, 3, 5, 14, 7, 9), kSteps);
  if (text.ok()) {
    MNEMON_CHECK(IsValidUtf8(*text));
  } else {
    MNEMON_CHECK(!text.status().message().empty());
  }
  return 0;
}
