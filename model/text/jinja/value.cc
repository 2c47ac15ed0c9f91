// SPDX-License-Identifier: MIT
#include "model/text/jinja/value.h"

#include <cmath>

#include "base/strings.h"
#include "model/text/jinja/loop.h"
#include "model/text/jinja/python_text.h"

namespace mnemon::jinja {

const Value* Dict::Find(const std::string& key) const {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : &entries[found->second].second;
}

const Value* Namespace::Find(const std::string& name) const {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &attributes[found->second].second;
}

void Namespace::Set(const std::string& name, Value value) {
  depth = std::max(depth, value.depth() + 1);
  const auto [place, added] = index.try_emplace(name, attributes.size());
  if (added) {
    attributes.emplace_back(name, std::move(value));
  } else {
    attributes[place->second].second = std::move(value);
  }
}

Value Value::OfBool(bool value) {
  Value made;
  made.held_ = value;
  return made;
}

Value Value::OfText(std::string bytes, bool markup) {
  const int64_t length = CodePoints(bytes);
  Value made;
  made.held_ = std::make_shared<const Text>(Text{std::move(bytes), length, markup});
  return made;
}

Value Value::Missing(std::string why) {
  return Undefined{std::make_shared<const std::string>(std::move(why))};
}

std::shared_ptr<Iterator> Value::iterator() const {
  const auto* held = std::get_if<std::shared_ptr<Iterator>>(&held_);
  return held == nullptr ? nullptr : *held;
}

bool Value::IsList() const {
  return sequence() != nullptr && sequence()->kind == Sequence::kList;
}

bool Value::IsTuple() const {
  return sequence() != nullptr && sequence()->kind == Sequence::kTuple;
}

std::optional<Int> Value::integer() const {
  if (const bool* flag = boolean()) return *flag ? 1 : 0;
  if (const Int* number = std::get_if<Int>(&held_)) return *number;
  return std::nullopt;
}

std::optional<double> Value::real() const {
  if (const double* value = number()) return *value;
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

bool Value::truth() const {
  if (undefined() || none()) return false;
  if (const auto value = real()) return *value != 0;
  if (text() != nullptr) return !text()->bytes.empty();
  if (sequence() != nullptr) return !sequence()->items.empty();
  if (dict() != nullptr) return !dict()->entries.empty();
  return true;
}

bool Value::SameAs(const Value& other) const {
  if (held_.index() != other.held_.index()) return false;
  if (undefined()) return true;
  if (const auto whole = integer()) return whole == other.integer();
  if (const double* value = number()) return *value == *other.number();
  return std::visit(
      [&](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (requires { held.get(); }) {
          return held == std::get<T>(other.held_);
        } else {
          return true;
        }
      },
      held_);
}

int Value::depth() const {
  if (sequence() != nullptr) return sequence()->depth;
  if (dict() != nullptr) return dict()->depth;
  if (space() != nullptr) return space()->depth;
  if (const auto held = iterator()) return held->depth;
  if (loop() != nullptr) return loop()->iterable.depth() + 1;
  if (callable() != nullptr) return callable()->self.depth() + 1;
  return 0;
}

std::string_view Value::type() const {
  if (sequence() != nullptr) {
    constexpr std::string_view kNames[] = {"list",      "tuple",       "range",
                                           "dict_keys", "dict_values", "dict_items"};
    return kNames[sequence()->kind];
  }
  constexpr std::string_view kNames[] = {
      "Undefined", "NoneType", "bool",      "int",       "float",       "str",
      "list",      "dict",     "Namespace", "generator", "LoopContext", "function"};
  return kNames[held_.index()];
}

const std::string& Value::why() const {
  static const std::string kUnnamed = "the value is undefined";
  const auto* held = std::get_if<Undefined>(&held_);
  return held == nullptr || held->why == nullptr ? kUnnamed : *held->why;
}

std::string TextKey(std::string_view text) { return StrCat("s", text); }

std::optional<std::string> KeyOf(const Value& value) {
  if (value.text() != nullptr) return TextKey(value.text()->bytes);
  if (const auto whole = value.integer()) return "n" + IntText(*whole);
  if (const double* number = value.number()) {
    if (*number == std::floor(*number) && std::abs(*number) < 0x1p100) {
      return "n" + IntText(static_cast<Int>(*number));
    }
    return "f" + FloatText(*number);
  }
  if (value.none()) return "0";
  if (value.undefined()) return "u";
  return std::nullopt;
}

std::string IntText(Int number) {
  // Unsigned, as the least number has no positive counterpart.
  auto rest = static_cast<unsigned __int128>(number);
  if (number < 0) rest = -rest;
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  return number < 0 ? "-" + digits : digits;
}

}  // namespace mnemon::jinja
