// SPDX-License-Identifier: MIT
#include "model/io/manifest.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

// Programs from before int8 checkpoints read only the first.
constexpr int64_t kFp32Version = 1;
constexpr int64_t kInt8Version = 2;

bool IsSha256(const nlohmann::json& value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.size() == 64 && text.find_first_not_of(kDigits) == text.npos;
}

// Value of an object for `key`; null if there is none.
const nlohmann::json& Get(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

absl::StatusOr<std::optional<Int8Source>> ParseSource(const nlohmann::json& json) {
  const nlohmann::json& precision = Get(json, "precision");
  const nlohmann::json& source = Get(json, "source");
  if (precision.is_null() && source.is_null()) return std::nullopt;
  if (precision != "int8") {
    return absl::InvalidArgumentError(
        StrCat("precision ", Quoted(precision.dump()),
               " is not known: it is \"int8\", or for fp32 left out with the source"));
  }
  const bool valid = source.is_object() && IsSha256(Get(source, "model_id")) &&
                     IsSha256(Get(source, "weights_sha256"));
  if (!valid) {
    return absl::InvalidArgumentError(
        "source must hold model_id and weights_sha256 of the fp32 checkpoint, each of "
        "64 lower-case hexadecimal digits");
  }
  return Int8Source{.model_id = source["model_id"],
                    .weights_sha256 = source["weights_sha256"]};
}

}  // namespace

absl::StatusOr<Manifest> ParseManifest(std::string_view text, const std::string& path) {
  MNEMON_ASSIGN_OR_RETURN(const nlohmann::json json,
                          ParseJson(text, Quoted(path), {.max_depth = 4}));
  const auto fault = [&path](std::string_view what) {
    return absl::InvalidArgumentError(StrCat(Quoted(path), ": ", what));
  };
  if (!json.is_object() || !Get(json, "format_version").is_number_unsigned()) {
    return fault("expected an object with a format_version");
  }
  const uint64_t version = json["format_version"];
  if (version > static_cast<uint64_t>(kInt8Version)) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat(Quoted(path), " has format_version ", version,
                            "; this program reads up to ", kInt8Version),
                     {.reason = "FORMAT_TOO_NEW", .field = "format_version"});
  }
  Manifest manifest;
  auto source = ParseSource(json);
  if (!source.ok()) return Annotated(source.status(), Quoted(path));
  manifest.source = *std::move(source);
  if ((version == kInt8Version) != manifest.source.has_value()) {
    return fault("format_version 2 and a precision go together");
  }
  const nlohmann::json& files = Get(json, "files");
  if (!files.is_object()) return fault("expected an object 'files'");
  for (const auto& [name, entry] : files.items()) {
    if (!entry.is_object() || !Get(entry, "sha256").is_string() ||
        !Get(entry, "bytes").is_number_unsigned()) {
      return fault(StrCat("entry ", Quoted(name), " must hold sha256 and bytes"));
    }
    manifest.files[name] = {entry["sha256"], entry["bytes"]};
  }
  return manifest;
}

std::string FormatManifest(const Manifest& manifest) {
  nlohmann::ordered_json json;
  json["format_version"] = manifest.source ? kInt8Version : kFp32Version;
  if (manifest.source) {
    json["precision"] = "int8";
    json["source"] = {{"model_id", manifest.source->model_id},
                      {"weights_sha256", manifest.source->weights_sha256}};
  }
  nlohmann::ordered_json& files = json["files"] = nlohmann::ordered_json::object();
  for (const auto& [name, entry] : manifest.files) {
    files[name] = {{"sha256", entry.sha256}, {"bytes", entry.bytes}};
  }
  return json.dump(2) + "\n";
}

}  // namespace mnemon
