// SPDX-License-Identifier: MIT
#include "client/chat/chat_settings.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "base/process/command_line.h"
#include "base/process/nearest_name.h"
#include "base/quote.h"
#include "base/strings.h"
#include "client/terminal/sampling_fields.h"

namespace mnemon::client {
namespace {

bool Parse(const std::string& text, double& value) {
  return absl::SimpleAtod(text, &value);
}
template <class Integer>
bool Parse(const std::string& text, Integer& value) {
  return absl::SimpleAtoi(text, &value);
}

template <class Options, class Visitor>
void VisitSettings(Options& options, Visitor&& visit) {
  VisitSampling(options.sampling, visit);
  visit("max_tokens", options.stopping.max_tokens);
}

std::string NextWord(std::string_view& text) {
  constexpr std::string_view kSpace = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  const size_t size = std::min(text.find_first_of(kSpace), text.size());
  std::string word(text.substr(0, size));
  text.remove_prefix(size);
  return word;
}

}  // namespace

absl::Status ApplySetting(std::string_view text, GenerateOptions& options) {
  const std::string name = NextWord(text);
  const std::string value = NextWord(text);
  if (value.empty() || !NextWord(text).empty()) {
    return absl::InvalidArgumentError("use /set NAME VALUE, for example /set top_k 40");
  }
  std::vector<std::string> names;
  std::optional<bool> parsed;
  VisitSettings(options, [&]<class T>(const char* key, std::optional<T>& setting) {
    names.emplace_back(key);
    if (name != key) return;
    T number{};
    parsed = value == "-" || Parse(value, number);
    if (*parsed) setting = value == "-" ? std::nullopt : std::optional<T>(number);
  });
  if (!parsed) {
    return absl::InvalidArgumentError(StrCat("unknown setting ", Quoted(name),
                                             DidYouMean(name, names),
                                             "; settings: ", StrJoin(names, ", ")));
  }
  if (!*parsed) {
    return absl::InvalidArgumentError(StrCat(name, ": ", NumberFault(value)));
  }
  return absl::OkStatus();
}

std::string DescribeSettings(const GenerateOptions& options) {
  std::string text;
  VisitSettings(options, [&](const std::string& key, const auto& setting) {
    text += StrCat(key, std::string(23 - key.size(), ' '),
                   setting ? StrCat(*setting) : "default", "\n");
  });
  return text;
}

}  // namespace mnemon::client
