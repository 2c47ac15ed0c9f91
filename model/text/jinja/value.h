// SPDX-License-Identifier: MIT
// Values of templates, with Python's meaning: strings have lengths and order by code
// points, True is 1, dictionaries keep the order of their keys. All but namespaces,
// iterators and loops are immutable and shared. Values belong to one rendering and one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace mnemon::jinja {

// Integers. Python's are unlimited; arithmetic beyond these bits is an error.
using Int = __int128;

class Value;

struct Undefined {
  std::shared_ptr<const std::string> why;  // may be null
};
struct None {};

struct Text {
  std::string bytes;  // UTF-8
  int64_t length;     // code points
  bool markup;        // made by the filters safe and escape

  bool ascii() const { return length == static_cast<int64_t>(bytes.size()); }
};

struct Sequence;
struct Dict;
struct Namespace;
struct Iterator;
struct Callable;
struct Loop;  // loop.h

class Value {
 public:
  Value() = default;  // undefined
  Value(Undefined undefined) : held_(std::move(undefined)) {}
  Value(None none) : held_(none) {}
  Value(Int number) : held_(number) {}
  Value(double number) : held_(number) {}
  Value(std::shared_ptr<const Sequence> sequence) : held_(std::move(sequence)) {}
  Value(std::shared_ptr<const Dict> dict) : held_(std::move(dict)) {}
  Value(std::shared_ptr<Namespace> space) : held_(std::move(space)) {}
  Value(std::shared_ptr<Iterator> iterator) : held_(std::move(iterator)) {}
  Value(std::shared_ptr<Loop> loop) : held_(std::move(loop)) {}
  Value(std::shared_ptr<const Callable> callable) : held_(std::move(callable)) {}
  static Value OfBool(bool value);
  // REQUIRES: valid UTF-8. Callers check lengths: see runtime.h.
  static Value OfText(std::string bytes, bool markup = false);
  static Value Missing(std::string why);

  template <class T>
  bool Is() const {
    return std::holds_alternative<T>(held_);
  }
  bool undefined() const { return Is<Undefined>(); }
  bool none() const { return Is<None>(); }

  // Null if the value has another kind.
  const bool* boolean() const { return std::get_if<bool>(&held_); }
  const double* number() const { return std::get_if<double>(&held_); }
  const Text* text() const { return Get<const Text>(); }
  const Sequence* sequence() const { return Get<const Sequence>(); }
  const Dict* dict() const { return Get<const Dict>(); }
  Namespace* space() const { return Get<Namespace>(); }
  Loop* loop() const { return Get<Loop>(); }
  const Callable* callable() const { return Get<const Callable>(); }
  std::shared_ptr<Iterator> iterator() const;
  // For an int or bool.
  std::optional<Int> integer() const;
  // For a number of any kind.
  std::optional<double> real() const;
  bool IsList() const;
  bool IsTuple() const;

  // Like Python's bool().
  bool truth() const;
  // Like Python's `is`: equal numbers, or the same object.
  bool SameAs(const Value& other) const;
  int depth() const;
  // Python's name of the type.
  std::string_view type() const;
  const std::string& why() const;  // message of an undefined value

 private:
  template <class T>
  T* Get() const {
    const auto* held = std::get_if<std::shared_ptr<T>>(&held_);
    return held == nullptr ? nullptr : held->get();
  }

  std::variant<Undefined, None, bool, Int, double, std::shared_ptr<const Text>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
               std::shared_ptr<Namespace>, std::shared_ptr<Iterator>,
               std::shared_ptr<Loop>, std::shared_ptr<const Callable>>
      held_;
};

// depth, here and below: 1 + the depth of the deepest value inside.
struct Sequence {
  enum Kind { kList, kTuple, kRange, kKeys, kValues, kItems };
  Kind kind;
  std::vector<Value> items;
  int64_t start = 0, stop = 0, step = 1;  // for kRange
  int depth = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  absl::flat_hash_map<std::string, size_t> index;  // by KeyOf
  int depth = 1;

  // Null if there is none.
  const Value* Find(const std::string& key) const;
};

// Yields each value once, like a generator of Python; nullopt at the end.
using NextValue = std::function<absl::StatusOr<std::optional<Value>>()>;
struct Iterator {
  NextValue next;
  int depth = 1;
};

// Target of `set ns.x`.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  absl::flat_hash_map<std::string, size_t> index;
  int depth = 1;

  const Value* Find(const std::string& name) const;
  void Set(const std::string& name, Value value);
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Frame;      // evaluator.h
struct Statement;  // tree.h
struct Callable {
  enum Kind { kFunction, kMethod, kMacro };
  Kind kind;
  std::string name;
  Value self = {};                   // for a method
  const Statement* macro = nullptr;  // for a macro, with the frame that defines it
  Frame* frame = nullptr;
};

// Text that identifies a key of a dictionary: equal keys have equal texts. nullopt if
// the value cannot be a key.
std::optional<std::string> KeyOf(const Value& value);
std::string TextKey(std::string_view text);

// Decimal text.
std::string IntText(Int number);

}  // namespace mnemon::jinja
