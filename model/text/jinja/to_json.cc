// SPDX-License-Identifier: MIT
#include "model/text/jinja/to_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/python_text.h"
#include "nlohmann/json.hpp"

namespace mnemon::jinja {
namespace {

std::string JsonFloat(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return FloatText(number);
}

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string between = ", ";
  std::string after_key = ": ";
};

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style) {}

  absl::Status Write(const Value& value, int depth) {
    MNEMON_RETURN_IF_ERROR(runtime_.Spend(1));
    if (value.none()) return Add("null");
    if (value.boolean() != nullptr) return Add(*value.boolean() ? "true" : "false");
    if (const auto whole = value.integer()) return Add(IntText(*whole));
    if (value.number() != nullptr) return Add(JsonFloat(*value.number()));
    if (value.text() != nullptr) return Add(QuotedText(value.text()->bytes));
    if (value.dict() != nullptr) return WriteDict(*value.dict(), depth);
    if (value.IsList() || value.IsTuple()) return WriteList(*value.sequence(), depth);
    if (value.undefined()) return Fail("tojson of an undefined value: ", value.why());
    return Fail("tojson of a ", value.type());
  }

  std::string Take() { return std::move(out_); }

 private:
  absl::Status Add(std::string_view piece) {
    out_ += piece;
    if (static_cast<int64_t>(out_.size()) > kMaxTextBytes) {
      return TooMuch("bytes of a string", kMaxTextBytes);
    }
    return runtime_.Spend(static_cast<int64_t>(piece.size()) / kStepBytes);
  }

  absl::Status NewLine(int depth) {
    if (!style_.indent.has_value()) return absl::OkStatus();
    MNEMON_RETURN_IF_ERROR(Add("\n"));
    for (int i = 0; i < depth; ++i) MNEMON_RETURN_IF_ERROR(Add(*style_.indent));
    return absl::OkStatus();
  }

  absl::Status WriteList(const Sequence& list, int depth) {
    if (list.items.empty()) return Add("[]");
    MNEMON_RETURN_IF_ERROR(Add("["));
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) MNEMON_RETURN_IF_ERROR(Add(style_.between));
      MNEMON_RETURN_IF_ERROR(NewLine(depth + 1));
      MNEMON_RETURN_IF_ERROR(Write(list.items[i], depth + 1));
    }
    MNEMON_RETURN_IF_ERROR(NewLine(depth));
    return Add("]");
  }

  absl::Status WriteDict(const Dict& dict, int depth) {
    if (dict.entries.empty()) return Add("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) MNEMON_RETURN_IF_ERROR(Sort(entries));
    MNEMON_RETURN_IF_ERROR(Add("{"));
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) MNEMON_RETURN_IF_ERROR(Add(style_.between));
      MNEMON_RETURN_IF_ERROR(NewLine(depth + 1));
      MNEMON_ASSIGN_OR_RETURN(const std::string key, KeyText(entries[i]->first));
      MNEMON_RETURN_IF_ERROR(Add(QuotedText(key)));
      MNEMON_RETURN_IF_ERROR(Add(style_.after_key));
      MNEMON_RETURN_IF_ERROR(Write(entries[i]->second, depth + 1));
    }
    MNEMON_RETURN_IF_ERROR(NewLine(depth));
    return Add("}");
  }

  absl::Status Sort(std::vector<const std::pair<Value, Value>*>& entries) {
    absl::Status fault;
    std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
      const auto less = Ordered(runtime_, "<", a->first, b->first);
      if (!less.ok()) fault.Update(less.status());
      return less.ok() && *less;
    });
    return fault;
  }

  static absl::StatusOr<std::string> KeyText(const Value& key) {
    if (key.text() != nullptr) return key.text()->bytes;
    if (key.boolean() != nullptr) return std::string(*key.boolean() ? "true" : "false");
    if (key.none()) return std::string("null");
    if (key.number() != nullptr) return JsonFloat(*key.number());
    if (const auto whole = key.integer()) return IntText(*whole);
    return Fail("tojson of a key that is a ", key.type());
  }

  std::string QuotedText(std::string_view text) const {
    std::string out = "\"";
    for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
      const char32_t c = CodePointAt(text, at);
      const size_t named =
          std::string_view("\"\\\n\r\t\b\f").find(static_cast<char>(c));
      if (c < 0x80 && named != std::string_view::npos) {
        out += '\\';
        out += "\"\\nrtbf"[named];
      } else if (c < 0x20 || (style_.ascii && c > 0x7e)) {
        AppendEscape(c, out);
      } else {
        out += text.substr(at, CodePointBytes(text, at));
      }
    }
    return out + '"';
  }

  static void AppendEscape(char32_t c, std::string& out) {
    if (c > 0xffff) {
      AppendEscape(0xd800 + ((c - 0x10000) >> 10), out);
      AppendEscape(0xdc00 + ((c - 0x10000) & 0x3ff), out);
      return;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
    out += escaped;
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

absl::StatusOr<Value> ToJson(Runtime& runtime, const Value& value,
                             const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(
      const auto bound,
      Bind(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ascii = TruthOr(bound[0], false);
  style.sort_keys = TruthOr(bound[3], false);
  if (bound[1].has_value() && !bound[1]->none()) {
    style.between = ",";
    if (bound[1]->text() != nullptr) {
      style.indent = bound[1]->text()->bytes;
    } else {
      MNEMON_ASSIGN_OR_RETURN(const int64_t width, IntOr(bound[1], 0, "indent"));
      constexpr int64_t kMost = 1000;
      if (width > kMost) return TooMuch("spaces of an indent", kMost);
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (bound[2].has_value() && !bound[2]->none()) {
    MNEMON_ASSIGN_OR_RETURN(const std::vector<Value> pair, Collect(runtime, *bound[2]));
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr) {
      return Fail("separators are two strings");
    }
    style.between = pair[0].text()->bytes;
    style.after_key = pair[1].text()->bytes;
  }
  JsonWriter writer(runtime, style);
  MNEMON_RETURN_IF_ERROR(writer.Write(value, 0));
  return runtime.NewText(writer.Take());
}

absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json, int depth) {
  MNEMON_RETURN_IF_ERROR(Runtime::CheckDepth(depth + 1));
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    if (!IsValidUtf8(text)) return Fail("a string of the variables is not UTF-8");
    return Value::OfText(text);
  }
  if (json.is_array()) {
    auto made = std::make_shared<Sequence>();
    made->kind = Sequence::kList;
    for (const auto& item : json) {
      MNEMON_ASSIGN_OR_RETURN(Value value, FromJson(item, depth + 1));
      made->depth = std::max(made->depth, value.depth() + 1);
      made->items.push_back(std::move(value));
    }
    return Value(std::shared_ptr<const Sequence>(std::move(made)));
  }
  if (json.is_object()) {
    auto made = std::make_shared<Dict>();
    for (const auto& [key, item] : json.items()) {
      if (!IsValidUtf8(key)) return Fail("a key of the variables is not UTF-8");
      MNEMON_ASSIGN_OR_RETURN(Value value, FromJson(item, depth + 1));
      made->depth = std::max(made->depth, value.depth() + 1);
      made->index.emplace(TextKey(key), made->entries.size());
      made->entries.emplace_back(Value::OfText(key), std::move(value));
    }
    return Value(std::shared_ptr<const Dict>(std::move(made)));
  }
  if (json.is_boolean()) return Value::OfBool(json.get<bool>());
  if (json.is_number_unsigned()) return Value(static_cast<Int>(json.get<uint64_t>()));
  if (json.is_number_integer()) return Value(static_cast<Int>(json.get<int64_t>()));
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_null()) return Value(None());
  return Fail("the variables hold a ", std::string(json.type_name()));
}

}  // namespace mnemon::jinja
