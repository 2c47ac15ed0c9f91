// SPDX-License-Identifier: MIT
// The Jinja2 of chat templates of Hugging Face models, configured as in transformers:
// docs/chat_templates.md lists what is supported and what differs. A template is a
// program in an untrusted file: it reads its variables, writes a text, and accesses
// nothing else.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "model/text/jinja/limits.h"
#include "nlohmann/json_fwd.hpp"

namespace mnemon {

namespace jinja {
struct Tree;
}

// Immutable, so safe for concurrent use. Movable; a moved-from object may only be
// destroyed.
class JinjaTemplate {
 public:
  // `name` appears in messages. INVALID_ARGUMENT with the line for a malformed
  // template, and for an unknown tag, filter, test, function or method;
  // RESOURCE_EXHAUSTED beyond kMaxSourceBytes or kMaxTreeDepth.
  static absl::StatusOr<JinjaTemplate> Parse(std::string_view source,
                                             std::string_view name);
  ~JinjaTemplate();
  JinjaTemplate(JinjaTemplate&&) noexcept;
  JinjaTemplate& operator=(JinjaTemplate&&) noexcept;

  // Renders with `variables`, an object: each member is a variable; tojson and items()
  // keep their order. `now`: the local time that strftime_now formats. Errors name the
  // line: INVALID_ARGUMENT if jinja2 raises an exception, with reason TEMPLATE_RAISED
  // if the template calls raise_exception; RESOURCE_EXHAUSTED beyond a limit of
  // limits.h, one of which `max_steps` can replace.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& variables,
                                     absl::CivilSecond now,
                                     int64_t max_steps = jinja::kMaxSteps) const;

 private:
  JinjaTemplate(std::unique_ptr<const jinja::Tree> tree, std::string name);

  std::unique_ptr<const jinja::Tree> tree_;
  std::string name_;
};

}  // namespace mnemon
