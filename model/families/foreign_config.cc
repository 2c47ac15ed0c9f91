// SPDX-License-Identifier: MIT
#include "model/families/foreign_config.h"

#include <cmath>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr int64_t kMostInteger = int64_t{1} << 40;
constexpr size_t kMostShown = 80;

std::string ShownValue(const nlohmann::json& value) {
  std::string shown = value.dump();
  if (shown.size() > kMostShown) shown = shown.substr(0, kMostShown) + "..";
  return shown;
}

// Settings of generation, of training and of the library's own bookkeeping.
constexpr std::string_view kHarmless[] = {
    "_attn_implementation",
    "_name_or_path",
    "add_cross_attention",
    "architectures",
    "attention_dropout",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "rope_interleaved",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attn",
};

}  // namespace

struct ForeignConfig::File {
  nlohmann::json json;
  std::vector<std::string> faults;
  std::map<const nlohmann::json*, std::set<std::string, std::less<>>> asked;
  std::map<const nlohmann::json*, std::string> paths;  // of objects that were read
};

ForeignConfig::ForeignConfig(std::shared_ptr<File> file, const nlohmann::json* object,
                             std::string path)
    : file_(std::move(file)), object_(object), path_(std::move(path)) {
  file_->paths.emplace(object_, path_);
}

absl::StatusOr<ForeignConfig> ForeignConfig::Parse(std::string_view json) {
  const auto file = std::make_shared<File>();
  MNEMON_ASSIGN_OR_RETURN(file->json, ParseJson(json, "config.json", {.max_depth = 8}));
  if (!file->json.is_object()) {
    return InvalidField("", "config.json is not a JSON object");
  }
  ForeignConfig config(file, &file->json, "");
  for (const std::string_view key : kHarmless) config.Ignore({key});
  return config;
}

const nlohmann::json* ForeignConfig::Find(std::string_view key) {
  file_->asked[object_].emplace(key);
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool ForeignConfig::Has(std::string_view key) const {
  const auto found = object_->find(key);
  return found != object_->end() && !found->is_null();
}

void ForeignConfig::Fault(std::string_view key, std::string_view what) {
  file_->faults.push_back(StrCat(path_, key, " ", what));
}

template <class T, class Reads>
T ForeignConfig::Value(std::string_view key, const std::optional<T>& otherwise,
                       std::string_view wanted, const Reads& reads) {
  const nlohmann::json* const value = Find(key);
  if (value == nullptr) {
    if (!otherwise) Fault(key, "is missing");
    return otherwise.value_or(T{});
  }
  if (std::optional<T> read = reads(*value)) return *std::move(read);
  Refuse(key, wanted);
  return otherwise.value_or(T{});
}

int64_t ForeignConfig::Integer(std::string_view key, std::optional<int64_t> otherwise) {
  return Value<int64_t>(
      key, otherwise, "an integer from 0 to 2^40",
      [](const nlohmann::json& value) -> std::optional<int64_t> {
        if (!value.is_number_integer()) return std::nullopt;
        if (value.is_number_unsigned() && value.get<uint64_t>() > kMostInteger) {
          return std::nullopt;
        }
        const auto number = value.get<int64_t>();
        if (number < 0 || number > kMostInteger) return std::nullopt;
        return number;
      });
}

double ForeignConfig::Number(std::string_view key, std::optional<double> otherwise) {
  return Value<double>(key, otherwise, "a finite number",
                       [](const nlohmann::json& value) -> std::optional<double> {
                         if (!value.is_number()) return std::nullopt;
                         const auto number = value.get<double>();
                         if (!std::isfinite(number)) return std::nullopt;
                         return number;
                       });
}

bool ForeignConfig::Flag(std::string_view key, std::optional<bool> otherwise) {
  return Value<bool>(key, otherwise, "true or false",
                     [](const nlohmann::json& value) -> std::optional<bool> {
                       if (!value.is_boolean()) return std::nullopt;
                       return value.get<bool>();
                     });
}

std::string ForeignConfig::Text(std::string_view key,
                                std::optional<std::string> otherwise) {
  return Value<std::string>(
      key, otherwise, "a string",
      [](const nlohmann::json& value) -> std::optional<std::string> {
        if (!value.is_string()) return std::nullopt;
        return value.get<std::string>();
      });
}

std::vector<std::string> ForeignConfig::Texts(std::string_view key) {
  using List = std::vector<std::string>;
  return Value<List>(key, List(), "a list of strings",
                     [](const nlohmann::json& value) -> std::optional<List> {
                       if (!value.is_array()) return std::nullopt;
                       List list;
                       for (const nlohmann::json& one : value) {
                         if (!one.is_string()) return std::nullopt;
                         list.push_back(one.get<std::string>());
                       }
                       return list;
                     });
}

std::vector<int64_t> ForeignConfig::Integers(std::string_view key) {
  using List = std::vector<int64_t>;
  return Value<List>(key, List(), "a list of integers",
                     [](const nlohmann::json& value) -> std::optional<List> {
                       if (!value.is_array()) return std::nullopt;
                       List list;
                       for (const nlohmann::json& one : value) {
                         if (!one.is_number_integer()) return std::nullopt;
                         list.push_back(one.get<int64_t>());
                       }
                       return list;
                     });
}

ForeignConfig ForeignConfig::Section(std::string_view key) {
  static const nlohmann::json kNothing = nlohmann::json::object();
  const nlohmann::json* found = Find(key);
  if (found != nullptr && !found->is_object()) {
    Refuse(key, "an object");
    found = nullptr;
  }
  return ForeignConfig(file_, found == nullptr ? &kNothing : found,
                       StrCat(path_, key, "."));
}

void ForeignConfig::Ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) file_->asked[object_].emplace(key);
}

void ForeignConfig::Refuse(std::string_view key, std::string_view supported) {
  const nlohmann::json* const value = Find(key);
  const std::string shown = value == nullptr ? "null" : ShownValue(*value);
  Fault(key, StrCat("is ", shown, ", supported: ", supported));
}

void ForeignConfig::RefuseIfSet(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const nlohmann::json* const value = Find(key);
    if (value == nullptr || *value == false || *value == 0) continue;
    Refuse(key, "null or false");
  }
}

absl::Status ForeignConfig::status() const {
  std::vector<std::string> faults = file_->faults;
  for (const auto& [object, path] : file_->paths) {
    for (const auto& [key, value] : object->items()) {
      if (file_->asked[object].contains(key) || value.is_null()) continue;
      faults.push_back(StrCat(path, key, " (", ShownValue(value),
                              ") is not known to this program, and may change what "
                              "the model computes"));
    }
  }
  if (faults.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("config.json: ", StrJoin(faults, "; ")),
                   {.reason = "UNSUPPORTED_MODEL", .field = "config.json"});
}

}  // namespace mnemon
