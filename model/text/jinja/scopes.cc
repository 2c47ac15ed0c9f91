// SPDX-License-Identifier: MIT
// Determines the blank names of a scope: set there before anything in it reads them,
// outside an if, and unknown to the enclosing scopes. jinja2 makes such a name a local
// variable of the compiled function, which is undefined until then; any other name is
// looked up further out.
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "model/text/jinja/tree.h"

namespace mnemon::jinja {
namespace {

// Calls `visit` with each expression below `root`, and itself.
template <class Visit>
void ForEach(const Expression* root, const Visit& visit) {
  if (root == nullptr) return;
  visit(*root);
  for (const ExpressionPtr& part : root->parts) ForEach(part.get(), visit);
  const CallArguments& arguments = root->arguments;
  for (const ExpressionPtr& part : arguments.positional) ForEach(part.get(), visit);
  for (const auto& [name, part] : arguments.named) ForEach(part.get(), visit);
  ForEach(arguments.star.get(), visit);
  ForEach(arguments.double_star.get(), visit);
}

class Scope {
 public:
  explicit Scope(const Scope* outer) : outer_(outer) {}

  void Declare(const ExpressionPtr& target) {
    ForEach(target.get(), [&](const Expression& part) {
      if (part.kind == Expression::kName) known_.insert(part.name);
    });
  }
  void Declare(const std::string& name) { known_.insert(name); }

  // Names that statements read and set in this scope, not in nested ones.
  void Read(const ExpressionPtr& expression) {
    ForEach(expression.get(), [&](const Expression& part) {
      const bool name = part.kind == Expression::kName;
      if ((name || part.kind == Expression::kMember) && !Knows(part.name)) {
        known_.insert(part.name);
      }
    });
  }
  void Set(const std::string& name, bool within_if) {
    if (known_.contains(name)) return;
    const bool outside = outer_ != nullptr && outer_->Knows(name);
    known_.insert(name);
    if (!within_if && !outside) blanks_.insert(name);
  }
  void Set(const ExpressionPtr& target, bool within_if) {
    ForEach(target.get(), [&](const Expression& part) {
      if (part.kind == Expression::kName) Set(part.name, within_if);
    });
    Read(target);
  }

  BlankNames TakeBlanks() { return std::move(blanks_); }

 private:
  bool Knows(const std::string& name) const {
    return known_.contains(name) || (outer_ != nullptr && outer_->Knows(name));
  }

  const Scope* outer_;
  absl::flat_hash_set<std::string> known_;
  BlankNames blanks_;
};

void ReadBody(const Body& body, Scope& scope, bool within_if);

void ReadStatement(const Statement& statement, Scope& scope, bool within_if) {
  switch (statement.kind) {
    case Statement::kIf:
      // A condition is read before the bodies, but after earlier conditions: since
      // names in an if are looked up further out, the order makes no difference.
      for (size_t i = 0; i < statement.bodies.size(); ++i) {
        if (i < statement.expressions.size()) scope.Read(statement.expressions[i]);
        ReadBody(statement.bodies[i], scope, /*within_if=*/true);
      }
      return;
    case Statement::kSet:
      scope.Read(statement.expressions[0]);
      scope.Set(statement.targets[0], within_if);
      return;
    case Statement::kSetBlock:
      scope.Set(statement.targets[0], within_if);
      return;
    case Statement::kMacro:
      scope.Set(statement.name, within_if);
      return;
    default:
      // Values of with, source of for, calls, filters of blocks, outputs.
      for (const ExpressionPtr& part : statement.expressions) scope.Read(part);
      return;
  }
}

void ReadBody(const Body& body, Scope& scope, bool within_if) {
  for (const auto& statement : body) ReadStatement(*statement, scope, within_if);
}

// Whether anything within the body reads `name`.
bool Uses(const Body& body, std::string_view name) {
  bool found = false;
  const auto look = [&](const Expression& part) {
    found = found || (part.kind == Expression::kName && part.name == name);
  };
  for (const auto& statement : body) {
    for (const ExpressionPtr& part : statement->expressions) ForEach(part.get(), look);
    for (const ExpressionPtr& part : statement->defaults) ForEach(part.get(), look);
    ForEach(statement->condition.get(), look);
    for (const Body& inner : statement->bodies) found = found || Uses(inner, name);
    if (found) break;
  }
  return found;
}

void ResolveInner(const Body& body, const Scope& scope);

BlankNames ResolveBody(const Body& body, Scope& scope) {
  ReadBody(body, scope, /*within_if=*/false);
  ResolveInner(body, scope);
  return scope.TakeBlanks();
}

void ResolveStatement(Statement& statement, const Scope& outer) {
  if (statement.kind == Statement::kIf) {
    for (const Body& body : statement.bodies) ResolveInner(body, outer);
    return;
  }
  const bool macro =
      statement.kind == Statement::kMacro || statement.kind == Statement::kCall;
  for (size_t i = 0; i < statement.bodies.size(); ++i) {
    Scope scope(&outer);
    const bool otherwise = statement.kind == Statement::kFor && i == 1;
    if (statement.kind == Statement::kFor && !otherwise) scope.Declare("loop");
    if (statement.kind != Statement::kSetBlock && !otherwise) {
      for (const ExpressionPtr& target : statement.targets) scope.Declare(target);
    }
    for (const ExpressionPtr& part : statement.defaults) scope.Read(part);
    if (macro) {
      for (auto [name, uses] : {std::pair("caller", &statement.uses_caller),
                                std::pair("varargs", &statement.uses_varargs),
                                std::pair("kwargs", &statement.uses_kwargs)}) {
        *uses = Uses(statement.bodies[i], name);
        if (*uses) scope.Declare(name);
      }
    }
    statement.blanks.push_back(ResolveBody(statement.bodies[i], scope));
  }
}

void ResolveInner(const Body& body, const Scope& scope) {
  for (const auto& statement : body) ResolveStatement(*statement, scope);
}

}  // namespace

void ResolveScopes(Tree& tree) {
  Scope scope(nullptr);
  tree.blanks = ResolveBody(tree.body, scope);
}

}  // namespace mnemon::jinja
