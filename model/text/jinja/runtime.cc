// SPDX-License-Identifier: MIT
#include "model/text/jinja/runtime.h"

#include <algorithm>

#include "base/quote.h"
#include "base/status_macros.h"
#include "model/text/jinja/loop.h"
#include "model/text/jinja/python_text.h"

namespace mnemon::jinja {

absl::Status TooMuch(std::string_view what, int64_t most) {
  return absl::ResourceExhaustedError(StrCat(what, ": more than ", most));
}

Runtime::~Runtime() {
  for (const auto& space : spaces_) space->attributes.clear();
}

absl::Status Runtime::Spend(int64_t steps) {
  steps_ += steps;
  return steps_ > max_steps_ ? TooMuch("steps of the evaluation", max_steps_)
                             : absl::OkStatus();
}

absl::Status Runtime::SpendText(int64_t bytes) {
  if (bytes > kMaxTextBytes) return TooMuch("bytes of a string", kMaxTextBytes);
  return Spend(1 + bytes / kStepBytes);
}

absl::Status Runtime::CheckDepth(int depth) {
  return depth > kMaxValueDepth ? TooMuch("levels of nested values", kMaxValueDepth)
                                : absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> Runtime::LookUpKey(const Value& value) {
  if (const Text* text = value.text()) {
    MNEMON_RETURN_IF_ERROR(SpendText(static_cast<int64_t>(text->bytes.size())));
  }
  std::optional<std::string> key = KeyOf(value);
  if (!key.has_value() && !value.IsTuple()) {
    return Fail("a ", value.type(), " is not a dictionary key");
  }
  return key;
}

absl::StatusOr<Value> Runtime::NewText(std::string bytes, bool markup) {
  MNEMON_RETURN_IF_ERROR(SpendText(static_cast<int64_t>(bytes.size())));
  return Value::OfText(std::move(bytes), markup);
}

absl::StatusOr<Value> Runtime::NewSequence(std::vector<Value> items,
                                           Sequence::Kind kind) {
  MNEMON_RETURN_IF_ERROR(Spend(1 + static_cast<int64_t>(items.size())));
  auto made = std::make_shared<Sequence>();
  made->kind = kind;
  for (const Value& item : items) made->depth = std::max(made->depth, item.depth() + 1);
  MNEMON_RETURN_IF_ERROR(CheckDepth(made->depth));
  made->items = std::move(items);
  return Value(std::shared_ptr<const Sequence>(std::move(made)));
}

absl::StatusOr<Value> Runtime::NewDict(std::vector<std::pair<Value, Value>> entries) {
  MNEMON_RETURN_IF_ERROR(
      Spend(1 + kDictEntrySteps * static_cast<int64_t>(entries.size())));
  auto made = std::make_shared<Dict>();
  for (auto& [key, value] : entries) {
    const std::optional<std::string> name = KeyOf(key);
    if (!name.has_value()) return Fail("a ", key.type(), " is not a dictionary key");
    made->depth = std::max(made->depth, value.depth() + 1);
    const auto [place, added] = made->index.try_emplace(*name, made->entries.size());
    if (added) {
      made->entries.emplace_back(std::move(key), std::move(value));
    } else {
      made->entries[place->second].second = std::move(value);
    }
  }
  MNEMON_RETURN_IF_ERROR(CheckDepth(made->depth));
  return Value(std::shared_ptr<const Dict>(std::move(made)));
}

absl::StatusOr<Value> Runtime::NewNamespace(
    std::vector<std::pair<std::string, Value>> items) {
  MNEMON_RETURN_IF_ERROR(Spend(kNamespaceSteps + static_cast<int64_t>(items.size())));
  auto made = std::make_shared<Namespace>();
  for (auto& [name, value] : items) made->Set(name, std::move(value));
  MNEMON_RETURN_IF_ERROR(CheckDepth(made->depth));
  spaces_.push_back(made);
  return Value(std::move(made));
}

absl::StatusOr<Value> Runtime::NewIterator(NextValue next, int depth) {
  MNEMON_RETURN_IF_ERROR(Spend(1));
  MNEMON_RETURN_IF_ERROR(CheckDepth(depth + 1));
  auto made = std::make_shared<Iterator>();
  made->next = std::move(next);
  made->depth = depth + 1;
  return Value(std::move(made));
}

bool IsIterable(const Value& value) {
  return value.undefined() || value.text() != nullptr || value.sequence() != nullptr ||
         value.dict() != nullptr || value.iterator() != nullptr;
}

absl::StatusOr<std::shared_ptr<Iterator>> Iterate(Runtime& runtime,
                                                  const Value& value) {
  if (auto held = value.iterator()) return held;
  if (!IsIterable(value)) return Fail("a ", value.type(), " cannot be iterated over");
  auto made = std::make_shared<Iterator>();
  made->depth = value.depth() + 1;
  made->next = [&runtime, value,
                at = size_t{0}]() mutable -> absl::StatusOr<std::optional<Value>> {
    MNEMON_RETURN_IF_ERROR(runtime.Spend(1));
    if (const Text* text = value.text()) {
      if (at == text->bytes.size()) return std::nullopt;
      const size_t begin = at;
      at += CodePointBytes(text->bytes, at);
      return Value::OfText(text->bytes.substr(begin, at - begin));
    }
    if (const Sequence* sequence = value.sequence()) {
      if (at == sequence->items.size()) return std::nullopt;
      return sequence->items[at++];
    }
    if (const Dict* dict = value.dict()) {
      if (at == dict->entries.size()) return std::nullopt;
      return dict->entries[at++].first;
    }
    return std::nullopt;
  };
  return made;
}

absl::StatusOr<std::vector<Value>> Collect(Runtime& runtime, const Value& value) {
  MNEMON_ASSIGN_OR_RETURN(const auto source, Iterate(runtime, value));
  std::vector<Value> items;
  while (true) {
    MNEMON_ASSIGN_OR_RETURN(std::optional<Value> item, source->next());
    if (!item.has_value()) return items;
    MNEMON_RETURN_IF_ERROR(runtime.Spend(1));
    items.push_back(*std::move(item));
  }
}

std::optional<int64_t> LengthOf(const Value& value) {
  if (value.undefined()) return 0;
  if (value.text() != nullptr) return value.text()->length;
  if (value.sequence() != nullptr) {
    return static_cast<int64_t>(value.sequence()->items.size());
  }
  if (value.dict() != nullptr) {
    return static_cast<int64_t>(value.dict()->entries.size());
  }
  return std::nullopt;
}

namespace {

// Prints a value as Python does within containers.
class Printer {
 public:
  explicit Printer(Runtime& runtime) : runtime_(runtime) {}

  absl::Status Print(const Value& value, int depth = 0) {
    MNEMON_RETURN_IF_ERROR(runtime_.Spend(1));
    MNEMON_RETURN_IF_ERROR(Runtime::CheckDepth(depth));
    if (const Text* text = value.text()) {
      MNEMON_RETURN_IF_ERROR(Add(value.text()->markup ? "Markup(" : ""));
      MNEMON_RETURN_IF_ERROR(Add(QuotedAsPython(text->bytes)));
      return Add(text->markup ? ")" : "");
    }
    if (const Sequence* sequence = value.sequence()) return Print(*sequence, depth);
    if (const Dict* dict = value.dict()) return PrintEntries(dict->entries, depth);
    if (const Namespace* space = value.space()) {
      MNEMON_RETURN_IF_ERROR(Add("<Namespace "));
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [name, held] : space->attributes) {
        entries.emplace_back(Value::OfText(name), held);
      }
      MNEMON_RETURN_IF_ERROR(PrintEntries(entries, depth));
      return Add(">");
    }
    return Add(PlainText(value));
  }

  std::string Take() { return std::move(out_); }

  static std::string PlainText(const Value& value) {
    if (value.undefined()) return "Undefined";
    if (value.none()) return "None";
    if (value.boolean() != nullptr) return *value.boolean() ? "True" : "False";
    if (value.number() != nullptr) return FloatText(*value.number());
    if (const auto whole = value.integer()) return IntText(*whole);
    if (const Callable* callable = value.callable()) {
      if (callable->kind == Callable::kMacro) {
        return callable->name.empty() ? "<Macro anonymous>"
                                      : StrCat("<Macro '", callable->name, "'>");
      }
      return StrCat("<function ", callable->name, ">");
    }
    return StrCat("<", value.type(), ">");
  }

 private:
  absl::Status Add(std::string_view piece) {
    const auto bytes = static_cast<int64_t>(piece.size());
    MNEMON_RETURN_IF_ERROR(runtime_.Spend(bytes / kStepBytes));
    if (static_cast<int64_t>(out_.size()) + bytes > kMaxTextBytes) {
      return TooMuch("bytes of a string", kMaxTextBytes);
    }
    out_ += piece;
    return absl::OkStatus();
  }

  absl::Status Print(const Sequence& sequence, int depth) {
    if (sequence.kind == Sequence::kRange) {
      return Add(StrCat("range(", sequence.start, ", ", sequence.stop,
                        sequence.step == 1 ? "" : StrCat(", ", sequence.step), ")"));
    }
    const bool tuple = sequence.kind == Sequence::kTuple;
    const bool view = sequence.kind >= Sequence::kKeys;
    if (view) {
      constexpr std::string_view kNames[] = {"dict_keys(", "dict_values(",
                                             "dict_items("};
      MNEMON_RETURN_IF_ERROR(Add(kNames[sequence.kind - Sequence::kKeys]));
    }
    MNEMON_RETURN_IF_ERROR(Add(tuple ? "(" : "["));
    bool first = true;
    for (const Value& item : sequence.items) {
      MNEMON_RETURN_IF_ERROR(Add(first ? "" : ", "));
      first = false;
      MNEMON_RETURN_IF_ERROR(Print(item, depth + 1));
    }
    if (tuple) return Add(sequence.items.size() == 1 ? ",)" : ")");
    return Add(view ? "])" : "]");
  }

  absl::Status PrintEntries(const std::vector<std::pair<Value, Value>>& entries,
                            int depth) {
    MNEMON_RETURN_IF_ERROR(Add("{"));
    bool first = true;
    for (const auto& [key, value] : entries) {
      MNEMON_RETURN_IF_ERROR(Add(first ? "" : ", "));
      first = false;
      MNEMON_RETURN_IF_ERROR(Print(key, depth + 1));
      MNEMON_RETURN_IF_ERROR(Add(": "));
      MNEMON_RETURN_IF_ERROR(Print(value, depth + 1));
    }
    return Add("}");
  }

  Runtime& runtime_;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> Str(Runtime& runtime, const Value& value) {
  if (value.undefined()) return std::string();
  if (value.text() != nullptr) {
    MNEMON_RETURN_IF_ERROR(
        runtime.SpendText(static_cast<int64_t>(value.text()->bytes.size())));
    return value.text()->bytes;
  }
  if (value.loop() != nullptr) return DescribeLoop(runtime, *value.loop());
  return Repr(runtime, value);
}

absl::StatusOr<std::string> Repr(Runtime& runtime, const Value& value) {
  Printer printer(runtime);
  MNEMON_RETURN_IF_ERROR(printer.Print(value));
  return printer.Take();
}

absl::StatusOr<std::vector<std::optional<Value>>> Bind(
    const Arguments& arguments, const std::vector<std::string_view>& names,
    size_t required) {
  if (arguments.positional.size() > names.size()) {
    return Fail("takes at most ", names.size(), " arguments, not ",
                arguments.positional.size());
  }
  std::vector<std::optional<Value>> bound(names.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    bound[i] = arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) return Fail("takes no argument ", Quoted(name));
    auto& held = bound[static_cast<size_t>(place - names.begin())];
    if (held.has_value()) return Fail("has two values of the argument ", Quoted(name));
    held = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!bound[i].has_value()) return Fail("lacks the argument ", Quoted(names[i]));
  }
  return bound;
}

absl::StatusOr<int64_t> IntOr(const std::optional<Value>& value, int64_t otherwise,
                              std::string_view what) {
  if (!value.has_value()) return otherwise;
  const std::optional<Int> whole = value->integer();
  if (!whole.has_value()) return Fail(what, " must be an int, not a ", value->type());
  constexpr int64_t kMost = int64_t{1} << 40;
  return static_cast<int64_t>(
      std::clamp<Int>(*whole, -static_cast<Int>(kMost), static_cast<Int>(kMost)));
}

absl::StatusOr<std::string> TextOr(const std::optional<Value>& value,
                                   std::string_view otherwise, std::string_view what) {
  if (!value.has_value()) return std::string(otherwise);
  if (value->text() == nullptr) {
    return Fail(what, " must be a str, not a ", value->type());
  }
  return value->text()->bytes;
}

bool TruthOr(const std::optional<Value>& value, bool otherwise) {
  return value.has_value() ? value->truth() : otherwise;
}

}  // namespace mnemon::jinja
