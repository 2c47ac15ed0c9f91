// SPDX-License-Identifier: MIT
#include "model/text/jinja/methods.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "base/quote.h"
#include "base/status_macros.h"
#include "model/text/jinja/loop.h"
#include "model/text/jinja/operators.h"

namespace mnemon::jinja {
namespace {

template <size_t N>
bool IsAmong(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values", "copy"};
constexpr std::string_view kListMethods[] = {"count", "index", "copy"};
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};
// Methods that modify values in Python.
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault",
                                             "update"};
constexpr std::string_view kListChanges[] = {"append", "clear",   "extend", "insert",
                                             "pop",    "reverse", "remove", "sort"};

Value Unsafe(const Value& value, std::string_view name) {
  return Value::Missing(StrCat("access to the attribute ", Quoted(name), " of a ",
                               value.type(), " is not allowed"));
}

Value Method(const Value& self, std::string_view name) {
  return Value(std::make_shared<const Callable>(
      Callable{.kind = Callable::kMethod, .name = std::string(name), .self = self}));
}

absl::StatusOr<Value> CallDictMethod(Runtime& runtime, const Value& self,
                                     std::string_view name,
                                     const Arguments& arguments) {
  const Dict& dict = *self.dict();
  if (name == "get") {
    MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"key", "default"}, 1));
    MNEMON_ASSIGN_OR_RETURN(const auto key, runtime.LookUpKey(*bound[0]));
    const Value* found = key.has_value() ? dict.Find(*key) : nullptr;
    return found != nullptr ? *found : bound[1].value_or(Value(None()));
  }
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (name == "copy") return self;
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    if (name == "keys") {
      items.push_back(key);
    } else if (name == "values") {
      items.push_back(value);
    } else {
      MNEMON_ASSIGN_OR_RETURN(Value pair,
                              runtime.NewSequence({key, value}, Sequence::kTuple));
      items.push_back(std::move(pair));
    }
  }
  return runtime.NewSequence(std::move(items), name == "keys"     ? Sequence::kKeys
                                               : name == "values" ? Sequence::kValues
                                                                  : Sequence::kItems);
}

absl::StatusOr<Value> CallListMethod(Runtime& runtime, const Value& self,
                                     std::string_view name,
                                     const Arguments& arguments) {
  const std::vector<Value>& items = self.sequence()->items;
  if (name == "copy") {
    MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
    return self;
  }
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"value"}, 1));
  Int count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    MNEMON_ASSIGN_OR_RETURN(const bool same, Equal(runtime, items[i], *bound[0]));
    if (!same) continue;
    if (name == "index") return Value(static_cast<Int>(i));
    ++count;
  }
  if (name == "index") return Fail("the value is not in the list");
  return Value(count);
}

}  // namespace

bool IsMethodName(std::string_view name) {
  return IsAmong(kDictMethods, name) || IsAmong(kListMethods, name) ||
         IsAmong(kLoopMethods, name) || IsAmong(kDictChanges, name) ||
         IsAmong(kListChanges, name) || FindTextMethod(name) != nullptr;
}

absl::StatusOr<std::optional<Value>> PropertyOf(Runtime& runtime, const Value& value,
                                                std::string_view name) {
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    return Unsafe(value, name);
  }
  if (const Namespace* space = value.space()) {
    const Value* held = space->Find(std::string(name));
    return held == nullptr ? std::nullopt : std::optional<Value>(*held);
  }
  if (value.dict() != nullptr) {
    if (IsAmong(kDictMethods, name)) return Method(value, name);
    if (IsAmong(kDictChanges, name)) return Unsafe(value, name);
  } else if (value.IsList()) {
    if (IsAmong(kListMethods, name)) return Method(value, name);
    if (IsAmong(kListChanges, name)) return Unsafe(value, name);
  } else if (value.IsTuple()) {
    if (name != "copy" && IsAmong(kListMethods, name)) return Method(value, name);
  } else if (value.text() != nullptr) {
    if (FindTextMethod(name) != nullptr) return Method(value, name);
  } else if (value.loop() != nullptr) {
    if (IsAmong(kLoopMethods, name)) return Method(value, name);
    return LoopProperty(runtime, *value.loop(), name);
  } else if (const Callable* callable = value.callable()) {
    if (callable->kind == Callable::kMacro && name == "name") {
      return Value::OfText(callable->name);
    }
  }
  return std::nullopt;
}

absl::StatusOr<Value> CallMethod(Runtime& runtime, const Callable& method,
                                 const Arguments& arguments) {
  const Value& self = method.self;
  constexpr std::string_view kWithNames[] = {"split", "rsplit", "splitlines"};
  if (!arguments.named.empty() && !IsAmong(kWithNames, method.name)) {
    return Fail("takes no named arguments");
  }
  if (self.text() != nullptr) {
    return FindTextMethod(method.name)(runtime, *self.text(), arguments);
  }
  if (self.loop() != nullptr) {
    return CallLoopMethod(runtime, *self.loop(), method.name, arguments);
  }
  if (self.dict() != nullptr) {
    return CallDictMethod(runtime, self, method.name, arguments);
  }
  return CallListMethod(runtime, self, method.name, arguments);
}

}  // namespace mnemon::jinja
