// SPDX-License-Identifier: MIT
#include "model/text/tokenizer_part.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {

absl::Status TokenizerFault(std::string_view what) {
  return absl::InvalidArgumentError(StrCat("tokenizer.json: ", what));
}

TokenizerPart::TokenizerPart(const nlohmann::json& json, std::string path)
    : json_(json), path_(std::move(path)) {
  if (!json.is_object()) Refuse("is not an object");
}

void TokenizerPart::Refuse(std::string_view what) {
  if (fault_.ok()) {
    fault_ = TokenizerFault(StrCat(path_, " ", what));
  }
}

const nlohmann::json* TokenizerPart::Find(std::string_view key) {
  asked_.emplace(key);
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

std::string TokenizerPart::Text(std::string_view key,
                                std::optional<std::string> otherwise) {
  const nlohmann::json* found = Find(key);
  if (found != nullptr && found->is_string()) return found->get<std::string>();
  if (found != nullptr || !otherwise) Refuse(StrCat("needs a text ", Quoted(key)));
  return otherwise.value_or("");
}

bool TokenizerPart::Flag(std::string_view key, std::optional<bool> otherwise) {
  const nlohmann::json* found = Find(key);
  if (found != nullptr && found->is_boolean()) return found->get<bool>();
  if (found != nullptr || !otherwise) {
    Refuse(StrCat("needs ", Quoted(key), ", true or false"));
  }
  return otherwise.value_or(false);
}

int64_t TokenizerPart::Integer(std::string_view key) {
  const nlohmann::json* found = Find(key);
  const bool number =
      found != nullptr && found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= uint64_t{INT64_MAX});
  if (number) return found->get<int64_t>();
  Refuse(StrCat("needs an integer ", Quoted(key)));
  return 0;
}

std::vector<TokenizerPart> TokenizerPart::Items(std::string_view key) {
  std::vector<TokenizerPart> items;
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !found->is_array()) {
    Refuse(StrCat("needs an array ", Quoted(key)));
    return items;
  }
  for (const nlohmann::json& item : *found) {
    items.emplace_back(item, StrCat(path_, ".", key, "[", items.size(), "]"));
  }
  return items;
}

absl::Status TokenizerPart::status() const {
  if (!fault_.ok() || !json_.is_object()) return fault_;
  for (const auto& [key, value] : json_.items()) {
    if (asked_.contains(key) || value.is_null()) continue;
    return TokenizerFault(StrCat(path_, " has a member ", Quoted(key),
                                 ", which is not known to this program"));
  }
  return absl::OkStatus();
}

}  // namespace mnemon
