// SPDX-License-Identifier: MIT
// TrainConfig as a TOML file: one table per first part of a key.
#include <filesystem>
#include <map>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "toml++/toml.h"
#include "train/data/config.h"

namespace mnemon {
namespace {

constexpr int64_t kMaxConfigBytes = 1 << 20;

// A value as the text of an override, and whether it was written in quotes.
struct Value {
  std::string text;
  bool quoted = false;
};

using Values = std::vector<std::pair<std::string, Value>>;

void Flatten(const toml::table& table, const std::string& prefix, Values& values,
             std::vector<std::string>& faults) {
  for (const auto& [name, node] : table) {
    std::string key = prefix + std::string(name.str());
    if (const toml::table* inner = node.as_table()) {
      Flatten(*inner, key + ".", values, faults);
    } else if (auto text = node.value_exact<std::string>()) {
      values.emplace_back(key, Value{*text, true});
    } else if (auto flag = node.value_exact<bool>()) {
      values.emplace_back(key, Value{*flag ? "true" : "false"});
    } else if (auto whole = node.value_exact<int64_t>()) {
      values.emplace_back(key, Value{StrCat(*whole)});
    } else if (auto number = node.value_exact<double>()) {
      values.emplace_back(key, Value{absl::StrFormat("%.17g", *number)});
    } else {
      faults.push_back(StrCat(key, " must be one value, not a list or a date"));
    }
  }
}

// The keys whose values stand in quotes: text and enumerations.
std::map<std::string, bool> QuotedKeys() {
  std::map<std::string, bool> quoted;
  TrainConfig config;
  VisitTrainFields(config,
                   [&]<class T>(const char* key, T&, const Limits&, const char*) {
                     quoted[key] = !std::is_arithmetic_v<T>;
                   });
  VisitConfigFields(config.model, [&]<class T>(const char* key, T&, auto...) {
    quoted[StrCat("model.", key)] = !std::is_arithmetic_v<T>;
  });
  return quoted;
}

void Apply(const std::string& key, const std::string& text, TrainConfig& config,
           std::vector<std::string>& faults) {
  absl::Status status = SetTrainField(config, key, text);
  if (!status.ok()) faults.emplace_back(status.message());
}

void ApplyOverride(const std::string& assignment, TrainConfig& config,
                   std::vector<std::string>& faults) {
  size_t equals = assignment.find('=');
  if (equals == 0 || equals == std::string::npos) {
    faults.push_back(StrCat("--set takes key=value, got '", assignment, "'"));
    return;
  }
  std::string key = assignment.substr(0, equals);
  bool duration =
      key == "train.steps" || key == "train.epochs" || key == "train.seconds";
  if (duration) config.duration = {};
  Apply(key, assignment.substr(equals + 1), config, faults);
}

// A TOML basic string.
std::string TomlString(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

}  // namespace

absl::StatusOr<TrainConfig> ParseTrainConfig(
    const std::string& toml, const std::string& name,
    const std::vector<std::string>& overrides) {
  toml::table table;
  try {
    table = toml::parse(toml, name);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(StrCat(name, ", line ", error.source().begin.line,
                                             ": ", std::string(error.description())));
  }
  TrainConfig config;
  std::vector<std::string> faults;
  Values values;
  Flatten(table, "", values, faults);
  const std::map<std::string, bool> quoted = QuotedKeys();
  for (const auto& [key, value] : values) {
    auto known = quoted.find(key);
    if (known != quoted.end() && known->second != value.quoted) {
      faults.push_back(StrCat(key,
                              known->second ? " must be text in quotes, got "
                                            : " must not stand in quotes: got ",
                              value.text));
      continue;
    }
    Apply(key, value.text, config, faults);
  }
  for (const std::string& assignment : overrides) {
    ApplyOverride(assignment, config, faults);
  }
  absl::Status status = ValidateTrainConfig(config);
  // A key that could not be set is missing only because of the first fault.
  if (faults.empty() && !status.ok()) faults.emplace_back(status.message());
  if (!faults.empty()) {
    return absl::InvalidArgumentError(StrCat(name, ":\n  ", StrJoin(faults, "\n  ")));
  }
  return config;
}

absl::StatusOr<TrainConfig> LoadTrainConfig(const std::string& path,
                                            const std::vector<std::string>& overrides) {
  // People may keep configurations as links; ReadFile takes regular files only.
  std::error_code error;
  std::string real = std::filesystem::canonical(path, error).string();
  MNEMON_RETURN_IF_ERROR(CheckFileKind(path));
  MNEMON_ASSIGN_OR_RETURN(std::string text,
                          ReadFile(error ? path : real, kMaxConfigBytes));
  return ParseTrainConfig(text, path, overrides);
}

std::string FormatTrainConfig(const TrainConfig& config, bool comments) {
  std::map<std::string, std::string> meaning;
  VisitTrainFields(config, [&](const char* key, const auto&, const Limits&,
                               const char* text) { meaning[key] = text; });
  const std::map<std::string, bool> quoted = QuotedKeys();
  std::string out, table;
  for (const auto& [key, text] : TrainFields(config)) {
    size_t dot = key.find('.');
    std::string prefix = dot == std::string::npos ? "" : key.substr(0, dot);
    if (prefix != table) {
      table = prefix;
      out += StrCat("\n[", table, "]\n");
    }
    std::string line = StrCat(dot == std::string::npos ? key : key.substr(dot + 1),
                              " = ", quoted.at(key) ? TomlString(text) : text);
    if (comments && meaning.contains(key)) {
      line = absl::StrFormat("%-32s # %s", line, meaning.at(key));
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace mnemon
