// SPDX-License-Identifier: MIT
// A parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, double_star;  // *x and **x; may be null
};

struct Expression {
  enum Kind {
    kConstant,     // value
    kName,         // name
    kMember,       // `name.attribute` as a target of set
    kTuple,        // parts
    kList,         // parts
    kDict,         // parts: key, value, key, value, ..
    kAttribute,    // parts[0].name
    kItem,         // parts[0][parts[1]]
    kSlice,        // parts[0][parts[1]:parts[2]:parts[3]], null if omitted
    kCall,         // parts[0](arguments)
    kFilter,       // parts[0] | name(arguments); null: a block's output
    kTest,         // parts[0] is name(arguments)
    kNot,          // parts[0]
    kNegative,     // -parts[0]
    kPositive,     // +parts[0]
    kBinary,       // parts[0] name parts[1], name: + - * / // % **
    kAnd,          // parts[0], parts[1]
    kOr,           // parts[0], parts[1]
    kConcat,       // parts with ~ between
    kCompare,      // parts[0] operators[0] parts[1] operators[1] ..
    kConditional,  // parts[1] if parts[0] else parts[2], which may be null
  };
  Kind kind;
  int line;
  std::string name = {}, attribute = {};
  Value value = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<std::string> operators = {};
  CallArguments arguments = {};
  int depth = 1;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

// Names set in a scope before they are read there: until then they are undefined, even
// if the rendering has variables of these names. As in jinja2; see scopes.cc.
using BlankNames = absl::flat_hash_set<std::string>;

struct Statement {
  enum Kind {
    kText,         // name
    kOutput,       // expressions
    kIf,           // conditions with bodies; one more body: else
    kFor,          // for targets[0] in expressions[0] if condition; else: bodies[1]
    kSet,          // targets[0] = expressions[0]
    kSetBlock,     // targets[0] = bodies[0] | expressions[0], which may be null
    kMacro,        // name, targets, defaults of the last targets, bodies[0]
    kCall,         // a macro without name as caller of expressions[0]
    kWith,         // targets = expressions in bodies[0]
    kFilterBlock,  // bodies[0] | expressions[0]
    kScope,        // bodies[0] in a scope of its own
    kBreak,
    kContinue,
  };
  Kind kind;
  int line;
  std::string name = {};
  std::vector<ExpressionPtr> targets = {}, expressions = {}, defaults = {};
  ExpressionPtr condition = {};
  std::vector<Body> bodies = {};
  std::vector<BlankNames> blanks = {};  // for each body that is a scope
  bool recursive = false;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  int depth = 1;
};

struct Tree {
  Body body;
  BlankNames blanks;
};

// Sets `blanks` and the names that macros use.
void ResolveScopes(Tree& tree);

}  // namespace mnemon::jinja
