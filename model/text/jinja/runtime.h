// SPDX-License-Identifier: MIT
// What a rendering has spent, and the making of values, which spends.
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

// One rendering; not safe for concurrent use. RESOURCE_EXHAUSTED where a limit is
// passed.
class Runtime {
 public:
  Runtime(absl::CivilSecond now, int64_t max_steps)
      : now_(now), max_steps_(max_steps) {}
  // Namespaces may hold each other.
  ~Runtime();
  Runtime(Runtime&&) = delete;

  absl::CivilSecond now() const { return now_; }
  absl::Status Spend(int64_t steps);
  // Before a text of so many bytes is made, or read whole.
  absl::Status SpendText(int64_t bytes);
  // As KeyOf, for a look-up; what is no key and no tuple, which might be one in Python,
  // is an error.
  absl::StatusOr<std::optional<std::string>> LookUpKey(const Value& value);
  // Within a value or an iterator at `depth`.
  static absl::Status CheckDepth(int depth);

  absl::StatusOr<Value> NewText(std::string bytes, bool markup = false);
  absl::StatusOr<Value> NewSequence(std::vector<Value> items,
                                    Sequence::Kind kind = Sequence::kList);
  // The last of equal keys wins.
  absl::StatusOr<Value> NewDict(std::vector<std::pair<Value, Value>> entries);
  absl::StatusOr<Value> NewNamespace(std::vector<std::pair<std::string, Value>> items);
  // `depth`: the deepest of what `next` uses.
  absl::StatusOr<Value> NewIterator(NextValue next, int depth);

 private:
  const absl::CivilSecond now_;
  const int64_t max_steps_;
  int64_t steps_ = 0;
  std::vector<std::shared_ptr<Namespace>> spaces_;
};

// The elements as `for` sees them; what has none is an error.
absl::StatusOr<std::shared_ptr<Iterator>> Iterate(Runtime& runtime, const Value& value);
bool IsIterable(const Value& value);
// As Python's list().
absl::StatusOr<std::vector<Value>> Collect(Runtime& runtime, const Value& value);
// As Python's len(); nullopt of what has none.
std::optional<int64_t> LengthOf(const Value& value);

// As Python's str() and repr().
absl::StatusOr<std::string> Str(Runtime& runtime, const Value& value);
absl::StatusOr<std::string> Repr(Runtime& runtime, const Value& value);

// The arguments by the places of `names`; an unknown name, a second value of a place
// and too many are errors, and so is one of the first `required` that is not there.
absl::StatusOr<std::vector<std::optional<Value>>> Bind(
    const Arguments& arguments, const std::vector<std::string_view>& names,
    size_t required = 0);
// The value of a place, or what holds without it. `what` is for the message.
absl::StatusOr<int64_t> IntOr(const std::optional<Value>& value, int64_t otherwise,
                              std::string_view what);
absl::StatusOr<std::string> TextOr(const std::optional<Value>& value,
                                   std::string_view otherwise, std::string_view what);
bool TruthOr(const std::optional<Value>& value, bool otherwise);

}  // namespace mnemon::jinja
