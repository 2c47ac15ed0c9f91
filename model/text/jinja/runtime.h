// SPDX-License-Identifier: MIT
// The budget of a rendering, and constructors of values, which spend it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "base/strings.h"
#include "model/text/jinja/limits.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

// INVALID_ARGUMENT.
template <class... Args>
absl::Status Fail(const Args&... args) {
  return absl::InvalidArgumentError(StrCat(args...));
}
absl::Status TooMuch(std::string_view what, int64_t most);

// One rendering; not safe for concurrent use. RESOURCE_EXHAUSTED if a limit is
// exceeded.
class Runtime {
 public:
  Runtime(absl::CivilSecond now, int64_t max_steps)
      : now_(now), max_steps_(max_steps) {}
  // Breaks cycles of namespaces that hold each other.
  ~Runtime();
  Runtime(Runtime&&) = delete;

  absl::CivilSecond now() const { return now_; }
  absl::Status Spend(int64_t steps);
  // Called before a text of `bytes` is made or read whole.
  absl::Status SpendText(int64_t bytes);
  // Like KeyOf, for a look-up; an error for values that are neither keys nor tuples,
  // which could be keys in Python.
  absl::StatusOr<std::optional<std::string>> LookUpKey(const Value& value);
  // Within a value or an iterator at `depth`.
  static absl::Status CheckDepth(int depth);

  absl::StatusOr<Value> NewText(std::string bytes, bool markup = false);
  absl::StatusOr<Value> NewSequence(std::vector<Value> items,
                                    Sequence::Kind kind = Sequence::kList);
  // The last of equal keys wins.
  absl::StatusOr<Value> NewDict(std::vector<std::pair<Value, Value>> entries);
  absl::StatusOr<Value> NewNamespace(std::vector<std::pair<std::string, Value>> items);
  // `depth`: the deepest value that `next` uses.
  absl::StatusOr<Value> NewIterator(NextValue next, int depth);

 private:
  const absl::CivilSecond now_;
  const int64_t max_steps_;
  int64_t steps_ = 0;
  std::vector<std::shared_ptr<Namespace>> spaces_;
};

// The elements as iterated by `for`; an error if there are none to iterate.
absl::StatusOr<std::shared_ptr<Iterator>> Iterate(Runtime& runtime, const Value& value);
bool IsIterable(const Value& value);
// Like Python's list().
absl::StatusOr<std::vector<Value>> Collect(Runtime& runtime, const Value& value);
// Like Python's len(); nullopt if there is no length.
std::optional<int64_t> LengthOf(const Value& value);

// Like Python's str() and repr().
absl::StatusOr<std::string> Str(Runtime& runtime, const Value& value);
absl::StatusOr<std::string> Repr(Runtime& runtime, const Value& value);

// Assigns arguments to the positions of `names`. Errors: an unknown name, a second
// value for a position, too many arguments, a missing one of the first `required`.
absl::StatusOr<std::vector<std::optional<Value>>> Bind(
    const Arguments& arguments, const std::vector<std::string_view>& names,
    size_t required = 0);
// The value at a position, or the default. `what` is for messages.
absl::StatusOr<int64_t> IntOr(const std::optional<Value>& value, int64_t otherwise,
                              std::string_view what);
absl::StatusOr<std::string> TextOr(const std::optional<Value>& value,
                                   std::string_view otherwise, std::string_view what);
bool TruthOr(const std::optional<Value>& value, bool otherwise);

}  // namespace mnemon::jinja
