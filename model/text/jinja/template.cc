// SPDX-License-Identifier: MIT
#include "model/text/jinja/template.h"

#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "model/text/jinja/evaluator.h"
#include "model/text/jinja/parser.h"
#include "model/text/jinja/to_json.h"
#include "nlohmann/json.hpp"

namespace mnemon {

JinjaTemplate::JinjaTemplate(std::unique_ptr<const jinja::Tree> tree, std::string name)
    : tree_(std::move(tree)), name_(std::move(name)) {}
JinjaTemplate::~JinjaTemplate() = default;
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;
JinjaTemplate& JinjaTemplate::operator=(JinjaTemplate&&) noexcept = default;

absl::StatusOr<JinjaTemplate> JinjaTemplate::Parse(std::string_view source,
                                                   std::string_view name) {
  const std::string what = StrCat("template ", Quoted(name));
  if (static_cast<int64_t>(source.size()) > jinja::kMaxSourceBytes) {
    return Annotated(jinja::TooMuch("bytes", jinja::kMaxSourceBytes), what);
  }
  if (!IsValidUtf8(source)) return Annotated(jinja::Fail("is not UTF-8"), what);
  auto tree = jinja::ParseTree(source);
  if (!tree.ok()) return Annotated(tree.status(), what);
  return JinjaTemplate(std::make_unique<const jinja::Tree>(*std::move(tree)),
                       std::string(name));
}

absl::StatusOr<std::string> JinjaTemplate::Render(
    const nlohmann::ordered_json& variables, absl::CivilSecond now,
    int64_t max_steps) const {
  if (!variables.is_object()) {
    return jinja::Fail("the variables of a template are no JSON object");
  }
  MNEMON_ASSIGN_OR_RETURN(jinja::Value values, jinja::FromJson(variables));
  jinja::Evaluator evaluator(*tree_, std::move(values), now, max_steps);
  absl::StatusOr<std::string> text = evaluator.Run();
  if (text.ok()) return text;
  return Annotated(text.status(), StrCat("template ", Quoted(name_), ", line ",
                                         evaluator.fault_line()));
}

}  // namespace mnemon
