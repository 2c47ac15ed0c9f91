// SPDX-License-Identifier: MIT
#include "model/text/jinja/evaluator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "model/text/jinja/filters.h"
#include "model/text/jinja/functions.h"
#include "model/text/jinja/limits.h"
#include "model/text/jinja/methods.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/tests.h"

namespace mnemon::jinja {

// A frame during its lifetime; longer if something keeps it.
class Evaluator::InFrame {
 public:
  InFrame(Evaluator& evaluator, Frame* outer, const BlankNames& blanks)
      : evaluator_(evaluator),
        before_(evaluator.frame_),
        frame_(std::make_unique<Frame>(Frame{.outer = outer, .blanks = blanks})) {
    evaluator.frame_ = frame_.get();
  }
  ~InFrame() {
    evaluator_.frame_ = before_;
    if (frame_->captured) evaluator_.kept_.push_back(std::move(frame_));
  }
  InFrame(InFrame&&) = delete;

 private:
  Evaluator& evaluator_;
  Frame* const before_;
  std::unique_ptr<Frame> frame_;
};

// One level of recursion.
class Evaluator::Deeper {
 public:
  Deeper(int& level, int most, std::string_view what) : level_(level) {
    if (++level_ > most) status_ = TooMuch(what, most);
  }
  ~Deeper() { --level_; }
  Deeper(Deeper&&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  int& level_;
  absl::Status status_;
};

// Redirects output to a text of its own during its lifetime.
class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator)
      : evaluator_(evaluator), before_(evaluator.out_) {
    evaluator.out_ = &text_;
  }
  ~Capture() { evaluator_.out_ = before_; }
  Capture(Capture&&) = delete;

  absl::StatusOr<Value> Take() { return evaluator_.runtime_.NewText(std::move(text_)); }

 private:
  Evaluator& evaluator_;
  std::string* const before_;
  std::string text_;
};

absl::StatusOr<std::string> Evaluator::Run() {
  std::string out;
  out_ = &out;
  const InFrame in_frame(*this, nullptr, tree_.blanks);
  MNEMON_RETURN_IF_ERROR(RunBody(tree_.body).status());
  return out;
}

absl::StatusOr<Evaluator::Flow> Evaluator::RunBody(const Body& body) {
  for (const auto& statement : body) {
    MNEMON_ASSIGN_OR_RETURN(const Flow flow, RunStatement(*statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::RunStatement(const Statement& statement) {
  const Deeper deeper(depth_, kMaxEvaluationDepth, "levels of evaluation");
  absl::Status ready = deeper.status();
  ready.Update(runtime_.Spend(1));
  absl::StatusOr<Flow> flow = ready.ok() ? Dispatch(statement) : ready;
  if (!flow.ok() && fault_line_ == 0) fault_line_ = statement.line;
  return flow;
}

absl::StatusOr<Evaluator::Flow> Evaluator::Dispatch(const Statement& statement) {
  switch (statement.kind) {
    case Statement::kText:
      MNEMON_RETURN_IF_ERROR(Emit(statement.name));
      return Flow::kNext;
    case Statement::kOutput:
      for (const ExpressionPtr& part : statement.expressions) {
        MNEMON_RETURN_IF_ERROR(Output(*part));
      }
      return Flow::kNext;
    case Statement::kIf:
      return RunIf(statement);
    case Statement::kFor: {
      MNEMON_ASSIGN_OR_RETURN(const Value iterable,
                              Evaluate(*statement.expressions[0]));
      return RunLoop(statement, iterable, frame_, 0);
    }
    case Statement::kSet: {
      MNEMON_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expressions[0]));
      MNEMON_RETURN_IF_ERROR(Assign(*statement.targets[0], value));
      return Flow::kNext;
    }
    case Statement::kSetBlock:
      return RunSetBlock(statement);
    case Statement::kMacro: {
      MNEMON_ASSIGN_OR_RETURN(Value macro, MakeMacro(statement));
      frame_->variables[statement.name] = std::move(macro);
      return Flow::kNext;
    }
    case Statement::kCall: {
      MNEMON_ASSIGN_OR_RETURN(const Value caller, MakeMacro(statement));
      MNEMON_ASSIGN_OR_RETURN(const Value value,
                              RunCall(*statement.expressions[0], &caller));
      MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime_, value));
      MNEMON_RETURN_IF_ERROR(Emit(text));
      return Flow::kNext;
    }
    case Statement::kWith:
      return RunWith(statement);
    case Statement::kFilterBlock:
      return RunFilterBlock(statement);
    case Statement::kScope: {
      const InFrame in_frame(*this, frame_, statement.blanks[0]);
      return RunBody(statement.bodies[0]);
    }
    case Statement::kBreak:
      return Flow::kBreak;
    case Statement::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::RunIf(const Statement& statement) {
  for (size_t i = 0; i < statement.bodies.size(); ++i) {
    bool holds = true;
    if (i < statement.expressions.size()) {
      MNEMON_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expressions[i]));
      holds = value.truth();
    }
    if (holds) return RunBody(statement.bodies[i]);
  }
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::RunSetBlock(const Statement& statement) {
  Value value;
  {
    const InFrame in_frame(*this, frame_, statement.blanks[0]);
    Capture capture(*this);
    MNEMON_ASSIGN_OR_RETURN(const Flow flow, RunBody(statement.bodies[0]));
    if (flow != Flow::kNext) return flow;
    MNEMON_ASSIGN_OR_RETURN(value, capture.Take());
    if (statement.expressions[0] != nullptr) {
      MNEMON_ASSIGN_OR_RETURN(value, RunFilter(*statement.expressions[0], value));
    }
  }
  MNEMON_RETURN_IF_ERROR(Assign(*statement.targets[0], value));
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::RunWith(const Statement& statement) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<Value> values,
                          EvaluateAll(statement.expressions));
  const InFrame in_frame(*this, frame_, statement.blanks[0]);
  for (size_t i = 0; i < values.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(Assign(*statement.targets[i], values[i]));
  }
  return RunBody(statement.bodies[0]);
}

absl::StatusOr<Evaluator::Flow> Evaluator::RunFilterBlock(const Statement& statement) {
  std::string text;
  {
    const InFrame in_frame(*this, frame_, statement.blanks[0]);
    Capture capture(*this);
    MNEMON_ASSIGN_OR_RETURN(const Flow flow, RunBody(statement.bodies[0]));
    if (flow != Flow::kNext) return flow;
    MNEMON_ASSIGN_OR_RETURN(const Value written, capture.Take());
    MNEMON_ASSIGN_OR_RETURN(const Value value,
                            RunFilter(*statement.expressions[0], written));
    MNEMON_ASSIGN_OR_RETURN(text, Str(runtime_, value));
  }
  MNEMON_RETURN_IF_ERROR(Emit(text));
  return Flow::kNext;
}

absl::StatusOr<Value> Evaluator::Filtered(const Statement& statement,
                                          const Value& iterable, Frame* outer) {
  MNEMON_ASSIGN_OR_RETURN(const auto source, Iterate(runtime_, iterable));
  Keep(outer);
  static const BlankNames kNone;
  return runtime_.NewIterator(
      [this, source, outer, &statement]() -> absl::StatusOr<std::optional<Value>> {
        while (true) {
          MNEMON_ASSIGN_OR_RETURN(std::optional<Value> item, source->next());
          if (!item.has_value()) return item;
          const InFrame in_frame(*this, outer, kNone);
          MNEMON_RETURN_IF_ERROR(Assign(*statement.targets[0], *item));
          MNEMON_ASSIGN_OR_RETURN(const Value holds, Evaluate(*statement.condition));
          if (holds.truth()) return item;
        }
      },
      source->depth);
}

absl::StatusOr<Evaluator::Flow> Evaluator::RunLoop(const Statement& statement,
                                                   const Value& iterable, Frame* outer,
                                                   int depth0) {
  auto loop = std::make_shared<Loop>();
  loop->iterable = iterable;
  if (statement.condition != nullptr) {
    MNEMON_ASSIGN_OR_RETURN(loop->iterable, Filtered(statement, iterable, outer));
  }
  MNEMON_ASSIGN_OR_RETURN(loop->source, Iterate(runtime_, loop->iterable));
  loop->depth0 = depth0;
  if (statement.recursive) {
    loop->recursive = &statement;
    loop->frame = outer;
    Keep(outer);
  }
  // As in jinja2, also if each run was cut short.
  bool none_ended = true;
  while (true) {
    MNEMON_ASSIGN_OR_RETURN(const bool more, AdvanceLoop(*loop));
    if (!more) break;
    const InFrame in_frame(*this, outer, statement.blanks[0]);
    frame_->variables["loop"] = Value(loop);
    MNEMON_RETURN_IF_ERROR(Assign(*statement.targets[0], *loop->current));
    MNEMON_ASSIGN_OR_RETURN(const Flow flow, RunBody(statement.bodies[0]));
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) none_ended = false;
  }
  if (!none_ended || statement.bodies.size() == 1) return Flow::kNext;
  const InFrame in_frame(*this, outer, statement.blanks[1]);
  return RunBody(statement.bodies[1]);
}

absl::Status Evaluator::Assign(const Expression& target, const Value& value) {
  if (target.kind == Expression::kName) {
    frame_->variables[target.name] = value;
    return absl::OkStatus();
  }
  if (target.kind == Expression::kMember) return AssignMember(target, value);
  MNEMON_ASSIGN_OR_RETURN(const std::vector<Value> values, Collect(runtime_, value));
  if (values.size() != target.parts.size()) {
    return Fail(values.size(), " values for ", target.parts.size(), " names");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(Assign(*target.parts[i], values[i]));
  }
  return absl::OkStatus();
}

absl::Status Evaluator::AssignMember(const Expression& target, const Value& value) {
  const Value holder = LookUp(target.name);
  if (holder.space() == nullptr) {
    return Fail(Quoted(target.name), " is not a namespace, so that ",
                Quoted(target.attribute), " cannot be set");
  }
  if (target.attribute.starts_with("_")) {
    return Fail("the name ", Quoted(target.attribute), " begins with an underscore");
  }
  MNEMON_RETURN_IF_ERROR(Runtime::CheckDepth(value.depth() + 1));
  holder.space()->Set(target.attribute, value);
  return absl::OkStatus();
}

absl::Status Evaluator::Output(const Expression& expression) {
  MNEMON_ASSIGN_OR_RETURN(const Value value, Evaluate(expression));
  if (value.text() != nullptr) return Emit(value.text()->bytes);
  MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime_, value));
  return Emit(text);
}

absl::Status Evaluator::Emit(std::string_view text) {
  MNEMON_RETURN_IF_ERROR(
      runtime_.Spend(static_cast<int64_t>(text.size()) / kStepBytes));
  if (static_cast<int64_t>(out_->size() + text.size()) > kMaxOutputBytes) {
    return TooMuch("bytes of output", kMaxOutputBytes);
  }
  *out_ += text;
  return absl::OkStatus();
}

absl::StatusOr<Value> Evaluator::Evaluate(const Expression& expression) {
  if (expression.kind == Expression::kConstant) return expression.value;
  const Deeper deeper(depth_, kMaxEvaluationDepth, "levels of evaluation");
  absl::Status ready = deeper.status();
  ready.Update(runtime_.Spend(1));
  absl::StatusOr<Value> value = ready.ok() ? Dispatch(expression) : ready;
  if (!value.ok() && fault_line_ == 0) fault_line_ = expression.line;
  return value;
}

absl::StatusOr<Value> Evaluator::Dispatch(const Expression& expression) {
  const auto& parts = expression.parts;
  switch (expression.kind) {
    case Expression::kConstant:
      return expression.value;
    case Expression::kName:
      return LookUp(expression.name);
    case Expression::kTuple:
    case Expression::kList: {
      MNEMON_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(parts));
      return runtime_.NewSequence(std::move(items), expression.kind == Expression::kList
                                                        ? Sequence::kList
                                                        : Sequence::kTuple);
    }
    case Expression::kDict:
      return MakeDict(expression);
    case Expression::kConcat:
      return Concat(expression);
    case Expression::kCompare:
      return Compare(expression);
    case Expression::kFilter:
      return RunFilter(expression, Value());
    case Expression::kCall:
      return RunCall(expression, nullptr);
    case Expression::kMember:
      return Fail("not a value");
    default:
      break;
  }
  MNEMON_ASSIGN_OR_RETURN(const Value first, Evaluate(*parts[0]));
  switch (expression.kind) {
    case Expression::kAttribute:
      return Attribute(runtime_, first, expression.name);
    case Expression::kItem: {
      MNEMON_ASSIGN_OR_RETURN(const Value key, Evaluate(*parts[1]));
      return Item(runtime_, first, key);
    }
    case Expression::kSlice: {
      MNEMON_ASSIGN_OR_RETURN(const auto from, EvaluateOptional(parts[1]));
      MNEMON_ASSIGN_OR_RETURN(const auto to, EvaluateOptional(parts[2]));
      MNEMON_ASSIGN_OR_RETURN(const auto step, EvaluateOptional(parts[3]));
      return Slice(runtime_, first, from, to, step);
    }
    case Expression::kTest: {
      MNEMON_ASSIGN_OR_RETURN(const Arguments arguments,
                              EvaluateArguments(expression.arguments));
      MNEMON_ASSIGN_OR_RETURN(const bool holds,
                              ApplyTest(runtime_, expression.name, first, arguments));
      return Value::OfBool(holds);
    }
    case Expression::kNot:
      return Value::OfBool(!first.truth());
    case Expression::kNegative:
      return Negate(first);
    case Expression::kPositive: {
      MNEMON_RETURN_IF_ERROR(Negate(first).status());
      if (const auto whole = first.integer()) return Value(*whole);
      return first;
    }
    case Expression::kBinary: {
      MNEMON_ASSIGN_OR_RETURN(const Value second, Evaluate(*parts[1]));
      return Calculate(runtime_, expression.name, first, second);
    }
    case Expression::kAnd:
      return first.truth() ? Evaluate(*parts[1]) : first;
    case Expression::kOr:
      return first.truth() ? first : Evaluate(*parts[1]);
    default:
      break;
  }
  // kConditional
  if (first.truth()) return Evaluate(*parts[1]);
  if (parts[2] != nullptr) return Evaluate(*parts[2]);
  return Value::Missing("an if without else is undefined as its condition is false");
}

absl::StatusOr<std::optional<Value>> Evaluator::EvaluateOptional(
    const ExpressionPtr& part) {
  if (part == nullptr) return std::nullopt;
  return Evaluate(*part);
}

absl::StatusOr<std::vector<Value>> Evaluator::EvaluateAll(
    const std::vector<ExpressionPtr>& parts) {
  std::vector<Value> values;
  values.reserve(parts.size());
  for (const ExpressionPtr& part : parts) {
    MNEMON_ASSIGN_OR_RETURN(Value value, Evaluate(*part));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Value> Evaluator::MakeDict(const Expression& expression) {
  MNEMON_ASSIGN_OR_RETURN(std::vector<Value> values, EvaluateAll(expression.parts));
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i < values.size(); i += 2) {
    entries.emplace_back(std::move(values[i]), std::move(values[i + 1]));
  }
  return runtime_.NewDict(std::move(entries));
}

absl::StatusOr<Value> Evaluator::Concat(const Expression& expression) {
  std::string out;
  for (const ExpressionPtr& part : expression.parts) {
    MNEMON_ASSIGN_OR_RETURN(const Value value, Evaluate(*part));
    MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime_, value));
    out += text;
    if (static_cast<int64_t>(out.size()) > kMaxTextBytes) {
      return TooMuch("bytes of a string", kMaxTextBytes);
    }
  }
  return runtime_.NewText(std::move(out));
}

absl::StatusOr<Value> Evaluator::Compare(const Expression& expression) {
  MNEMON_ASSIGN_OR_RETURN(Value left, Evaluate(*expression.parts[0]));
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    const std::string& comparison = expression.operators[i];
    MNEMON_ASSIGN_OR_RETURN(Value right, Evaluate(*expression.parts[i + 1]));
    bool holds = false;
    if (comparison == "==" || comparison == "!=") {
      MNEMON_ASSIGN_OR_RETURN(holds, Equal(runtime_, left, right));
      holds = holds == (comparison == "==");
    } else if (comparison == "in" || comparison == "not in") {
      MNEMON_ASSIGN_OR_RETURN(holds, Contains(runtime_, right, left));
      holds = holds == (comparison == "in");
    } else {
      MNEMON_ASSIGN_OR_RETURN(holds, Ordered(runtime_, comparison, left, right));
    }
    if (!holds) return Value::OfBool(false);
    left = std::move(right);
  }
  return Value::OfBool(true);
}

absl::StatusOr<Value> Evaluator::RunFilter(const Expression& filter,
                                           const Value& text) {
  Value input = text;
  if (filter.parts[0] != nullptr) {
    // Within the filters of a block there is a filter, elsewhere any expression.
    if (filter.parts[0]->kind == Expression::kFilter) {
      const Deeper deeper(depth_, kMaxEvaluationDepth, "levels of evaluation");
      MNEMON_RETURN_IF_ERROR(deeper.status());
      MNEMON_ASSIGN_OR_RETURN(input, RunFilter(*filter.parts[0], text));
    } else {
      MNEMON_ASSIGN_OR_RETURN(input, Evaluate(*filter.parts[0]));
    }
  }
  MNEMON_ASSIGN_OR_RETURN(const Arguments arguments,
                          EvaluateArguments(filter.arguments));
  absl::StatusOr<Value> value = ApplyFilter(runtime_, filter.name, input, arguments);
  if (value.ok()) return value;
  if (fault_line_ == 0) fault_line_ = filter.line;
  return Annotated(value.status(), StrCat("filter ", filter.name));
}

absl::StatusOr<Arguments> Evaluator::EvaluateArguments(const CallArguments& arguments) {
  Arguments made;
  MNEMON_ASSIGN_OR_RETURN(made.positional, EvaluateAll(arguments.positional));
  if (arguments.star != nullptr) {
    MNEMON_ASSIGN_OR_RETURN(const Value more, Evaluate(*arguments.star));
    MNEMON_ASSIGN_OR_RETURN(std::vector<Value> values, Collect(runtime_, more));
    std::move(values.begin(), values.end(), std::back_inserter(made.positional));
  }
  for (const auto& [name, part] : arguments.named) {
    MNEMON_ASSIGN_OR_RETURN(Value value, Evaluate(*part));
    made.named.emplace_back(name, std::move(value));
  }
  if (arguments.double_star != nullptr) {
    MNEMON_ASSIGN_OR_RETURN(const Value more, Evaluate(*arguments.double_star));
    if (more.dict() == nullptr) return Fail("** takes a dict, not a ", more.type());
    MNEMON_RETURN_IF_ERROR(
        runtime_.Spend(static_cast<int64_t>(more.dict()->entries.size())));
    for (const auto& [key, value] : more.dict()->entries) {
      if (key.text() == nullptr) return Fail("** takes names that are strings");
      made.named.emplace_back(key.text()->bytes, value);
    }
  }
  absl::flat_hash_set<std::string_view> names;
  for (const auto& [name, value] : made.named) {
    if (!names.insert(name).second) {
      return Fail("the argument ", Quoted(name), " is given twice");
    }
  }
  return made;
}

absl::StatusOr<Value> Evaluator::RunCall(const Expression& call, const Value* caller) {
  MNEMON_ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.parts[0]));
  MNEMON_ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(call.arguments));
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return Call(callee, std::move(arguments));
}

absl::StatusOr<Value> Evaluator::Call(const Value& callee, Arguments arguments) {
  if (callee.undefined()) return Fail(callee.why());
  if (callee.loop() != nullptr) return CallLoop(*callee.loop(), arguments);
  const Callable* callable = callee.callable();
  if (callable == nullptr) return Fail("a ", callee.type(), " cannot be called");
  if (callable->kind == Callable::kMacro) {
    return CallMacro(*callable, std::move(arguments));
  }
  absl::StatusOr<Value> value = callable->kind == Callable::kFunction
                                    ? CallFunction(runtime_, callable->name, arguments)
                                    : CallMethod(runtime_, *callable, arguments);
  if (value.ok() || callable->name == "raise_exception") return value;
  return Annotated(value.status(), callable->name);
}

absl::StatusOr<Value> Evaluator::CallMacro(const Callable& callable,
                                           Arguments arguments) {
  const Deeper deeper(calls_, kMaxCallDepth, "calls within each other");
  MNEMON_RETURN_IF_ERROR(deeper.status());
  const Statement& macro = *callable.macro;
  const InFrame in_frame(*this, callable.frame, macro.blanks[0]);
  Capture capture(*this);
  MNEMON_RETURN_IF_ERROR(BindParameters(callable, std::move(arguments)));
  MNEMON_RETURN_IF_ERROR(RunBody(macro.bodies[0]).status());
  return capture.Take();
}

absl::Status Evaluator::BindParameters(const Callable& callable, Arguments arguments) {
  const Statement& macro = *callable.macro;
  const size_t count = macro.targets.size();
  std::vector<Value>& given = arguments.positional;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    const auto found =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [&](const auto& pair) { return pair.first == name; });
    if (found == arguments.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  std::vector<std::optional<Value>> values(count);
  bool has_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.targets[i]->name;
    has_caller = has_caller || name == "caller";
    values[i] = i < given.size() ? std::optional<Value>(given[i]) : take(name);
  }
  if (macro.uses_caller && !has_caller) {
    const std::optional<Value> caller = take("caller");
    frame_->variables["caller"] = caller.has_value() && !caller->none()
                                      ? *caller
                                      : Value::Missing("no caller is defined");
  }
  if (macro.uses_kwargs) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [name, value] : arguments.named) {
      entries.emplace_back(Value::OfText(name), std::move(value));
    }
    MNEMON_ASSIGN_OR_RETURN(frame_->variables["kwargs"],
                            runtime_.NewDict(std::move(entries)));
  } else if (!arguments.named.empty()) {
    return Fail("the macro ", Quoted(callable.name), " takes no argument ",
                Quoted(arguments.named[0].first));
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest;
    if (given.size() > count) {
      rest.assign(given.begin() + static_cast<ptrdiff_t>(count), given.end());
    }
    MNEMON_ASSIGN_OR_RETURN(frame_->variables["varargs"],
                            runtime_.NewSequence(std::move(rest), Sequence::kTuple));
  } else if (given.size() > count) {
    return Fail("the macro ", Quoted(callable.name), " takes at most ", count,
                " arguments, not ", given.size());
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.targets[i]->name;
    frame_->variables[name] = values[i].value_or(
        Value::Missing(StrCat("the parameter ", Quoted(name), " is not given")));
  }
  const size_t without_default = count - macro.defaults.size();
  for (size_t i = without_default; i < count; ++i) {
    if (values[i].has_value()) continue;
    MNEMON_ASSIGN_OR_RETURN(Value value,
                            Evaluate(*macro.defaults[i - without_default]));
    frame_->variables[macro.targets[i]->name] = std::move(value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Evaluator::CallLoop(const Loop& loop,
                                          const Arguments& arguments) {
  if (loop.recursive == nullptr) return Fail("the loop is not marked recursive");
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"iterable"}, 1));
  const Deeper deeper(calls_, kMaxCallDepth, "calls within each other");
  MNEMON_RETURN_IF_ERROR(deeper.status());
  Capture capture(*this);
  MNEMON_RETURN_IF_ERROR(
      RunLoop(*loop.recursive, *bound[0], loop.frame, loop.depth0 + 1).status());
  return capture.Take();
}

Value Evaluator::LookUp(const std::string& name) const {
  for (const Frame* frame = frame_; frame != nullptr; frame = frame->outer) {
    const auto found = frame->variables.find(name);
    if (found != frame->variables.end()) return found->second;
    if (frame->blanks.contains(name)) {
      return Value::Missing(StrCat(Quoted(name), " is undefined"));
    }
  }
  if (const Value* given = variables_.dict()->Find(TextKey(name))) return *given;
  if (IsFunction(name)) {
    return Value(std::make_shared<const Callable>(
        Callable{.kind = Callable::kFunction, .name = name}));
  }
  return Value::Missing(StrCat(Quoted(name), " is undefined"));
}

void Evaluator::Keep(Frame* frame) {
  for (; frame != nullptr && !frame->captured; frame = frame->outer) {
    frame->captured = true;
  }
}

absl::StatusOr<Value> Evaluator::MakeMacro(const Statement& statement) {
  MNEMON_RETURN_IF_ERROR(runtime_.Spend(kMacroSteps));
  Keep(frame_);
  return Value(std::make_shared<const Callable>(Callable{.kind = Callable::kMacro,
                                                         .name = statement.name,
                                                         .macro = &statement,
                                                         .frame = frame_}));
}

}  // namespace mnemon::jinja
