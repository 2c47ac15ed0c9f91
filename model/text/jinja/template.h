// SPDX-License-Identifier: MIT
// The Jinja2 that chat templates of Hugging Face models are written in, as transformers
// sets it up: docs/chat_templates.md says what is there and what differs. A template is
// a program of an untrusted file: it reads its variables, writes a text, and reaches
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

// Constant, so safe for concurrent use. Movable; a moved-from one is only destroyed.
class JinjaTemplate {
 public:
  // `name` stands in messages. INVALID_ARGUMENT for what is no template, and for a tag,
  // filter, test, function or method that is not known, with its line;
  // RESOURCE_EXHAUSTED beyond kMaxSourceBytes or kMaxTreeDepth.
  static absl::StatusOr<JinjaTemplate> Parse(std::string_view source,
                                             std::string_view name);
  ~JinjaTemplate();
  JinjaTemplate(JinjaTemplate&&) noexcept;
  JinjaTemplate& operator=(JinjaTemplate&&) noexcept;

  // The text for `variables`, an object: each member is a variable, in the order that
  // tojson and items() show. `now`: the local time that strftime_now formats. Errors
  // name the line: INVALID_ARGUMENT where jinja2 has an exception, with reason
  // TEMPLATE_RAISED where the template itself calls raise_exception; RESOURCE_EXHAUSTED
  // beyond a limit of limits.h, of which
  // `max_steps` may replace one.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& variables,
                                     absl::CivilSecond now,
                                     int64_t max_steps = jinja::kMaxSteps) const;

 private:
  JinjaTemplate(std::unique_ptr<const jinja::Tree> tree, std::string name);

  std::unique_ptr<const jinja::Tree> tree_;
  std::string name_;
};

}  // namespace mnemon
