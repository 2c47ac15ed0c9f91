// SPDX-License-Identifier: MIT
// The values of templates, with the meaning of Python's: strings count and compare by
// code points, True is 1, dictionaries keep the order of their keys. All but
// namespaces, iterators and loops are immutable and shared. Values belong to one
// rendering and one thread.
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

// Python's have no limit; arithmetic beyond these bits is refused.
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
  // REQUIRES: valid UTF-8. Lengths are for callers to check: see runtime.h.
  static Value OfText(std::string bytes, bool markup = false);
  static Value Missing(std::string why);

  template <class T>
  bool Is() const {
    return std::holds_alternative<T>(held_);
  }
  bool undefined() const { return Is<Undefined>(); }
  bool none() const { return Is<None>(); }

  // Null of another kind.
  const bool* boolean() const { return std::get_if<bool>(&held_); }
  const double* number() const { return std::get_if<double>(&held_); }
  const Text* text() const { return Get<const Text>(); }
  const Sequence* sequence() const { return Get<const Sequence>(); }
  const Dict* dict() const { return Get<const Dict>(); }
  Namespace* space() const { return Get<Namespace>(); }
  Loop* loop() const { return Get<Loop>(); }
  const Callable* callable() const { return Get<const Callable>(); }
  std::shared_ptr<Iterator> iterator() const;
  // Of an int or bool.
  std::optional<Int> integer() const;
  // Of a number of any kind.
  std::optional<double> real() const;
  bool IsList() const;
  bool IsTuple() const;

  // As Python's bool().
  bool truth() const;
  // As Python's `is`: equal numbers, or the same object.
  bool SameAs(const Value& other) const;
  int depth() const;
  // Python's name of the type.
  std::string_view type() const;
  const std::string& why() const;  // of an undefined one: the message

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

// depth, here and below: 1 + that of the deepest value inside.
struct Sequence {
  enum Kind { kList, kTuple, kRange, kKeys, kValues, kItems };
  Kind kind;
  std::vector<Value> items;
  int64_t start = 0, stop = 0, step = 1;  // of kRange
  int depth = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  absl::flat_hash_map<std::string, size_t> index;  // by KeyOf
  int depth = 1;

  // Null where there is none.
  const Value* Find(const std::string& key) const;
};

// Gives each value once, as a generator of Python; nullopt at the end.
using NextValue = std::function<absl::StatusOr<std::optional<Value>>()>;
struct Iterator {
  NextValue next;
  int depth = 1;
};

// What `set ns.x` changes.
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
  Value self = {};                   // of a method
  const Statement* macro = nullptr;  // of a macro, with the frame that defines it
  Frame* frame = nullptr;
};

// What dictionaries tell keys apart by: equal keys have equal texts. nullopt of values
// that are no keys.
std::optional<std::string> KeyOf(const Value& value);
std::string TextKey(std::string_view text);

// In decimal.
std::string IntText(Int number);

}  // namespace mnemon::jinja
