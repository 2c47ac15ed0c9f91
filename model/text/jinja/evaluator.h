// SPDX-License-Identifier: MIT
// Evaluates the tree of a template.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "model/text/jinja/loop.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/tree.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

// Variables of a scope under evaluation.
struct Frame {
  Frame* outer;
  const BlankNames& blanks;
  absl::flat_hash_map<std::string_view, Value> variables = {};
  bool captured = false;  // a macro or a loop may still use it
};

// One rendering; used once, by one thread.
class Evaluator {
 public:
  // `variables`: a dictionary. `tree` must outlive it.
  Evaluator(const Tree& tree, Value variables, absl::CivilSecond now, int64_t max_steps)
      : tree_(tree), variables_(std::move(variables)), runtime_(now, max_steps) {}

  absl::StatusOr<std::string> Run();
  // Line of the fault; 0 if unknown.
  int fault_line() const { return fault_line_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class InFrame;
  class Deeper;
  class Capture;

  // Statements.
  absl::StatusOr<Flow> RunBody(const Body& body);
  absl::StatusOr<Flow> RunStatement(const Statement& statement);
  absl::StatusOr<Flow> Dispatch(const Statement& statement);
  absl::StatusOr<Flow> RunIf(const Statement& statement);
  absl::StatusOr<Flow> RunSetBlock(const Statement& statement);
  absl::StatusOr<Flow> RunWith(const Statement& statement);
  absl::StatusOr<Flow> RunFilterBlock(const Statement& statement);
  absl::StatusOr<Flow> RunLoop(const Statement& statement, const Value& iterable,
                               Frame* outer, int depth0);
  // The elements for which the condition of the block holds.
  absl::StatusOr<Value> Filtered(const Statement& statement, const Value& iterable,
                                 Frame* outer);
  absl::Status Assign(const Expression& target, const Value& value);
  absl::Status AssignMember(const Expression& target, const Value& value);
  absl::Status Output(const Expression& expression);
  absl::Status Emit(std::string_view text);

  // Expressions.
  absl::StatusOr<Value> Evaluate(const Expression& expression);
  absl::StatusOr<Value> Dispatch(const Expression& expression);
  absl::StatusOr<std::optional<Value>> EvaluateOptional(const ExpressionPtr& part);
  absl::StatusOr<std::vector<Value>> EvaluateAll(
      const std::vector<ExpressionPtr>& parts);
  absl::StatusOr<Value> MakeDict(const Expression& expression);
  absl::StatusOr<Value> Concat(const Expression& expression);
  absl::StatusOr<Value> Compare(const Expression& expression);
  // `text`: the body of the filter block.
  absl::StatusOr<Value> RunFilter(const Expression& filter, const Value& text);
  absl::StatusOr<Value> RunCall(const Expression& call, const Value* caller);
  absl::StatusOr<Arguments> EvaluateArguments(const CallArguments& arguments);
  absl::StatusOr<Value> Call(const Value& callee, Arguments arguments);
  absl::StatusOr<Value> CallMacro(const Callable& callable, Arguments arguments);
  absl::Status BindParameters(const Callable& callable, Arguments arguments);
  absl::StatusOr<Value> CallLoop(const Loop& loop, const Arguments& arguments);

  Value LookUp(const std::string& name) const;
  // Keeps this frame and its enclosing frames alive.
  static void Keep(Frame* frame);
  absl::StatusOr<Value> MakeMacro(const Statement& statement);

  const Tree& tree_;
  const Value variables_;
  Runtime runtime_;
  std::vector<std::unique_ptr<Frame>> kept_;
  Frame* frame_ = nullptr;
  std::string* out_ = nullptr;
  int depth_ = 0;
  int calls_ = 0;
  int fault_line_ = 0;
};

}  // namespace mnemon::jinja
