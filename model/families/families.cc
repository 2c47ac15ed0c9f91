// SPDX-License-Identifier: MIT
#include "model/families/families.h"

#include <string>

#include "base/error.h"
#include "base/process/nearest_name.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/families/table.h"

namespace mnemon {
namespace {

std::vector<std::string> KnownNames() {
  std::vector<std::string> names;
  for (const Family& family : Families()) names.emplace_back(family.name);
  return names;
}

absl::Status UnknownArchitecture(std::string_view name,
                                 std::span<const std::string> known) {
  return MakeError(absl::StatusCode::kNotFound,
                   StrCat("unknown architecture '", name,
                          "'; known: ", StrJoin(known, ", "), DidYouMean(name, known)),
                   {.reason = "UNKNOWN_ARCHITECTURE", .field = "architecture"});
}

}  // namespace

std::span<const Family> Families() {
#define MNEMON_MAKE_FAMILY(name) name(),
  static const Family kFamilies[] = {MNEMON_FAMILIES(MNEMON_MAKE_FAMILY)};
#undef MNEMON_MAKE_FAMILY
  return kFamilies;
}

absl::StatusOr<const Family*> FindFamily(std::string_view name) {
  for (const Family& family : Families()) {
    if (family.name == name) return &family;
  }
  return UnknownArchitecture(name, KnownNames());
}

absl::StatusOr<ModelDescription> DescribeModel(const ModelConfig& config) {
  const absl::Status general = ValidateConfig(config);
  MNEMON_ASSIGN_OR_RETURN(const Family* family, FindFamily(config.architecture));
  const absl::Status own = family->validate(config);
  if (!general.ok() && !own.ok()) {
    const auto detail = GetErrorDetail(general);
    return InvalidField(detail ? detail->field : "",
                        StrCat(general.message(), "; ", own.message()));
  }
  MNEMON_RETURN_IF_ERROR(general);
  MNEMON_RETURN_IF_ERROR(own);
  ModelDescription model = family->describe(config);
  MNEMON_RETURN_IF_ERROR(CheckDescription(model));
  return model;
}

std::vector<std::string> TypedNames() {
  std::vector<std::string> names;
  for (const Family& family : Families()) {
    names.emplace_back(family.name);
    if (!family.shared_name.empty()) names.emplace_back(family.shared_name);
  }
  return names;
}

absl::Status SetArchitecture(ModelConfig& config, std::string_view name) {
  for (const Family& family : Families()) {
    const bool shared = name == family.shared_name && !name.empty();
    if (name != family.name && !shared) continue;
    config.architecture = family.name;
    if (shared) config.projection = Projection::kShared;
    return absl::OkStatus();
  }
  return UnknownArchitecture(name, TypedNames());
}

std::string TypedNameOf(const ModelConfig& config) {
  const absl::StatusOr<const Family*> family = FindFamily(config.architecture);
  const bool shared = family.ok() && config.projection == Projection::kShared &&
                      !(*family)->shared_name.empty();
  return shared ? std::string((*family)->shared_name) : config.architecture;
}

}  // namespace mnemon
