// SPDX-License-Identifier: MIT
#include "model/text/jinja/parser.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/jinja/filters.h"
#include "model/text/jinja/functions.h"
#include "model/text/jinja/lexer.h"
#include "model/text/jinja/limits.h"
#include "model/text/jinja/methods.h"
#include "model/text/jinja/tests.h"
#include "model/text/jinja/token_reader.h"

namespace mnemon::jinja {
namespace {

using Made = absl::StatusOr<ExpressionPtr>;
using MadeStatement = absl::StatusOr<std::unique_ptr<Statement>>;
using Names = std::initializer_list<std::string_view>;

int DepthOf(const ExpressionPtr& part) { return part == nullptr ? 0 : part->depth; }

absl::Status TooDeep(int line) {
  return absl::ResourceExhaustedError(
      StrCat("line ", line, ": more than ", kMaxTreeDepth, " levels of nesting"));
}

class Parser : private TokenReader {
 public:
  using TokenReader::TokenReader;

  absl::StatusOr<Tree> Run() {
    Tree tree;
    MNEMON_ASSIGN_OR_RETURN(tree.body, ParseBody({}));
    for (const auto& [name, line] : called_) {
      if (!assigned_.contains(name) && !IsFunction(name) && name != "loop" &&
          name != "caller") {
        return FaultAt(line, StrCat("unknown function ", Quoted(name)));
      }
    }
    ResolveScopes(tree);
    return tree;
  }

 private:
  // Counts the recursion of the parser.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) { ++parser_.nesting_; }
    ~Nested() { --parser_.nesting_; }
    Nested(Nested&&) = delete;

    absl::Status status() const {
      return parser_.nesting_ > kMaxTreeDepth ? TooDeep(parser_.Now().line)
                                              : absl::OkStatus();
    }

   private:
    Parser& parser_;
  };

  // ---- Nodes

  static std::unique_ptr<Expression> New(Expression::Kind kind, int line) {
    return std::make_unique<Expression>(Expression{.kind = kind, .line = line});
  }
  static std::unique_ptr<Statement> New(Statement::Kind kind, int line) {
    return std::make_unique<Statement>(Statement{.kind = kind, .line = line});
  }

  Made Finish(std::unique_ptr<Expression> made) const {
    int depth = 0;
    for (const ExpressionPtr& part : made->parts)
      depth = std::max(depth, DepthOf(part));
    const CallArguments& arguments = made->arguments;
    for (const ExpressionPtr& part : arguments.positional) {
      depth = std::max(depth, DepthOf(part));
    }
    for (const auto& [name, part] : arguments.named) {
      depth = std::max(depth, DepthOf(part));
    }
    depth = std::max({depth, DepthOf(arguments.star), DepthOf(arguments.double_star)});
    made->depth = depth + 1;
    if (made->depth > kMaxTreeDepth) return TooDeep(made->line);
    return ExpressionPtr(std::move(made));
  }

  template <class... Parts>
  Made Finish(Expression::Kind kind, int line, std::string name, Parts... parts) const {
    auto made = New(kind, line);
    made->name = std::move(name);
    (made->parts.push_back(std::move(parts)), ...);
    return Finish(std::move(made));
  }

  MadeStatement Finish(std::unique_ptr<Statement> made) const {
    int depth = DepthOf(made->condition);
    for (const auto* list : {&made->targets, &made->expressions, &made->defaults}) {
      for (const ExpressionPtr& part : *list) depth = std::max(depth, DepthOf(part));
    }
    for (const Body& body : made->bodies) {
      for (const auto& statement : body) depth = std::max(depth, statement->depth);
    }
    made->depth = depth + 1;
    if (made->depth > kMaxTreeDepth) return TooDeep(made->line);
    return made;
  }

  // ---- Statements

  // Parses up to one of the tags `ends`, whose name is then the next token; without
  // `ends`, to the end of the template.
  absl::StatusOr<Body> ParseBody(Names ends) {
    const Nested nested(*this);
    MNEMON_RETURN_IF_ERROR(nested.status());
    const int line = line_before();
    Body body;
    while (Now().kind != Token::kEnd) {
      const Token& token = Take();
      if (token.kind == Token::kData) {
        auto text = New(Statement::kText, token.line);
        text->name = token.text;
        body.push_back(std::move(text));
      } else if (token.kind == Token::kVariableBegin) {
        auto output = New(Statement::kOutput, token.line);
        MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple());
        output->expressions.push_back(std::move(value));
        if (Now().kind != Token::kVariableEnd) return Unexpected("the end of {{ }}");
        Take();
        MNEMON_ASSIGN_OR_RETURN(auto made, Finish(std::move(output)));
        body.push_back(std::move(made));
      } else {
        if (Now().kind != Token::kName) return Unexpected("the name of a tag");
        if (std::find(ends.begin(), ends.end(), Now().text) != ends.end()) return body;
        MNEMON_ASSIGN_OR_RETURN(auto made, ParseStatement());
        body.push_back(std::move(made));
        MNEMON_RETURN_IF_ERROR(ExpectBlockEnd());
      }
    }
    if (ends.size() == 0) return body;
    return FaultAt(line,
                   StrCat("the template ends before {% ", *(ends.end() - 1), " %}"));
  }

  // Parses the rest of the tag and its body.
  absl::StatusOr<Body> ParseBlock(Names ends) {
    SkipSign(":");
    MNEMON_RETURN_IF_ERROR(ExpectBlockEnd());
    return ParseBody(ends);
  }

  absl::StatusOr<Body> ParseClosedBlock(std::string_view end) {
    MNEMON_ASSIGN_OR_RETURN(Body body, ParseBlock({end}));
    Take();
    return body;
  }

  MadeStatement ParseStatement() {
    const Token& tag = Take();
    const std::string& name = tag.text;
    if (name == "for") return ParseFor(tag.line);
    if (name == "if") return ParseIf(tag.line);
    if (name == "set") return ParseSet(tag.line);
    if (name == "macro") return ParseMacro(tag.line);
    if (name == "call") return ParseCallBlock(tag.line);
    if (name == "filter") return ParseFilterBlock(tag.line);
    if (name == "with") return ParseWith(tag.line);
    if (name == "print") return ParsePrint(tag.line);
    if (name == "generation") {
      auto made = New(Statement::kScope, tag.line);
      MNEMON_RETURN_IF_ERROR(ParseDelayed(*made, "endgeneration"));
      return Finish(std::move(made));
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0)
        return FaultAt(tag.line, StrCat(Quoted(name), " outside a loop"));
      return Finish(
          New(name == "break" ? Statement::kBreak : Statement::kContinue, tag.line));
    }
    return FaultAt(tag.line, StrCat("unknown tag ", Quoted(name),
                                    "; supported: for if set macro call filter with "
                                    "print generation break continue raw"));
  }

  // A body that is called, so that it cannot leave a loop around it.
  absl::Status ParseDelayed(Statement& made, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    MNEMON_ASSIGN_OR_RETURN(Body body, ParseClosedBlock(end));
    made.bodies.push_back(std::move(body));
    loops_ = loops;
    return absl::OkStatus();
  }

  MadeStatement ParseFor(int line) {
    auto made = New(Statement::kFor, line);
    ++loops_;
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr target, ParseTargets(/*members=*/false));
    made->targets.push_back(std::move(target));
    MNEMON_RETURN_IF_ERROR(ExpectWord("in"));
    MNEMON_ASSIGN_OR_RETURN(
        ExpressionPtr source,
        ParseTuple(/*conditional=*/false, /*in_parentheses=*/false, "recursive"));
    made->expressions.push_back(std::move(source));
    if (SkipWord("if")) {
      MNEMON_ASSIGN_OR_RETURN(made->condition, ParseExpression());
    }
    made->recursive = SkipWord("recursive");
    MNEMON_ASSIGN_OR_RETURN(Body body, ParseBlock({"else", "endfor"}));
    --loops_;
    made->bodies.push_back(std::move(body));
    if (Take().text == "else") {
      MNEMON_ASSIGN_OR_RETURN(Body otherwise, ParseClosedBlock("endfor"));
      made->bodies.push_back(std::move(otherwise));
    }
    if (assigned_loop_) return FaultAt(line, "the name loop is taken within a loop");
    return Finish(std::move(made));
  }

  MadeStatement ParseIf(int line) {
    auto made = New(Statement::kIf, line);
    while (true) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr condition,
                              ParseTuple(/*conditional=*/false));
      made->expressions.push_back(std::move(condition));
      MNEMON_ASSIGN_OR_RETURN(Body body, ParseBlock({"elif", "else", "endif"}));
      made->bodies.push_back(std::move(body));
      const std::string& next = Take().text;
      if (next == "elif") continue;
      if (next == "else") {
        MNEMON_ASSIGN_OR_RETURN(Body otherwise, ParseClosedBlock("endif"));
        made->bodies.push_back(std::move(otherwise));
      }
      return Finish(std::move(made));
    }
  }

  MadeStatement ParseSet(int line) {
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr target, ParseTargets(/*members=*/true));
    auto made = New(Statement::kSet, line);
    made->targets.push_back(std::move(target));
    if (SkipSign("=")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple());
      made->expressions.push_back(std::move(value));
      return Finish(std::move(made));
    }
    made->kind = Statement::kSetBlock;
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr filter, ParseFilters(nullptr));
    made->expressions.push_back(std::move(filter));
    MNEMON_ASSIGN_OR_RETURN(Body body, ParseClosedBlock("endset"));
    made->bodies.push_back(std::move(body));
    return Finish(std::move(made));
  }

  MadeStatement ParseMacro(int line) {
    auto made = New(Statement::kMacro, line);
    MNEMON_ASSIGN_OR_RETURN(made->name, ExpectName());
    assigned_.insert(made->name);
    MNEMON_RETURN_IF_ERROR(ParseSignature(*made));
    MNEMON_RETURN_IF_ERROR(ParseDelayed(*made, "endmacro"));
    return Finish(std::move(made));
  }

  MadeStatement ParseCallBlock(int line) {
    auto made = New(Statement::kCall, line);
    if (IsSign("(")) MNEMON_RETURN_IF_ERROR(ParseSignature(*made));
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr call, ParseExpression());
    if (call->kind != Expression::kCall) return FaultAt(line, "call needs a call");
    made->expressions.push_back(std::move(call));
    MNEMON_RETURN_IF_ERROR(ParseDelayed(*made, "endcall"));
    return Finish(std::move(made));
  }

  absl::Status ParseSignature(Statement& made) {
    MNEMON_RETURN_IF_ERROR(ExpectSign("("));
    while (!IsSign(")")) {
      if (!made.targets.empty()) MNEMON_RETURN_IF_ERROR(ExpectSign(","));
      auto parameter = New(Expression::kName, Now().line);
      MNEMON_ASSIGN_OR_RETURN(parameter->name, ExpectName());
      assigned_.insert(parameter->name);
      made.targets.push_back(std::move(parameter));
      if (SkipSign("=")) {
        MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
        made.defaults.push_back(std::move(value));
      } else if (!made.defaults.empty()) {
        return FaultAt(made.line, "a parameter without default follows one with it");
      }
    }
    return ExpectSign(")");
  }

  MadeStatement ParseFilterBlock(int line) {
    auto made = New(Statement::kFilterBlock, line);
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseFilter(nullptr));
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr filter, ParseFilters(std::move(first)));
    made->expressions.push_back(std::move(filter));
    MNEMON_ASSIGN_OR_RETURN(Body body, ParseClosedBlock("endfilter"));
    made->bodies.push_back(std::move(body));
    return Finish(std::move(made));
  }

  MadeStatement ParseWith(int line) {
    auto made = New(Statement::kWith, line);
    while (Now().kind != Token::kBlockEnd) {
      if (!made->targets.empty()) MNEMON_RETURN_IF_ERROR(ExpectSign(","));
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr target, ParseTargets(/*members=*/false));
      made->targets.push_back(std::move(target));
      MNEMON_RETURN_IF_ERROR(ExpectSign("="));
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      made->expressions.push_back(std::move(value));
    }
    MNEMON_ASSIGN_OR_RETURN(Body body, ParseClosedBlock("endwith"));
    made->bodies.push_back(std::move(body));
    return Finish(std::move(made));
  }

  MadeStatement ParsePrint(int line) {
    auto made = New(Statement::kOutput, line);
    while (Now().kind != Token::kBlockEnd) {
      if (!made->expressions.empty()) MNEMON_RETURN_IF_ERROR(ExpectSign(","));
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      made->expressions.push_back(std::move(value));
    }
    return Finish(std::move(made));
  }

  // ---- Targets of assignments

  static bool IsConstantName(std::string_view name) {
    return name == "true" || name == "false" || name == "none" || name == "True" ||
           name == "False" || name == "None";
  }

  Made ParseTarget(bool members) {
    const Nested nested(*this);
    MNEMON_RETURN_IF_ERROR(nested.status());
    const int line = Now().line;
    if (SkipSign("(")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr inner, ParseTargets(/*members=*/false));
      MNEMON_RETURN_IF_ERROR(ExpectSign(")"));
      return inner;
    }
    auto made = New(Expression::kName, line);
    MNEMON_ASSIGN_OR_RETURN(made->name, ExpectName());
    if (IsConstantName(made->name)) {
      return FaultAt(line, StrCat("cannot assign to ", Quoted(made->name)));
    }
    if (members && SkipSign(".")) {
      made->kind = Expression::kMember;
      MNEMON_ASSIGN_OR_RETURN(made->attribute, ExpectName());
    } else {
      assigned_.insert(made->name);
      assigned_loop_ = assigned_loop_ || (made->name == "loop" && loops_ > 0);
    }
    return Finish(std::move(made));
  }

  Made ParseTargets(bool members) {
    const int line = Now().line;
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseTarget(members));
    if (!IsSign(",")) return first;
    auto tuple = New(Expression::kTuple, line);
    tuple->parts.push_back(std::move(first));
    while (SkipSign(",")) {
      if (Now().kind == Token::kBlockEnd || IsSign(")") || IsWord("in")) break;
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr next, ParseTarget(members));
      tuple->parts.push_back(std::move(next));
    }
    return Finish(std::move(tuple));
  }

  // ---- Expressions, from the loosest operator to the tightest

  // Several with commas are a tuple. `end`: a word that may follow a trailing comma.
  Made ParseTuple(bool conditional = true, bool in_parentheses = false,
                  std::string_view end = "") {
    const int line = Now().line;
    auto tuple = New(Expression::kTuple, line);
    bool comma = false;
    const auto at_end = [&] {
      return Now().kind == Token::kVariableEnd || Now().kind == Token::kBlockEnd ||
             IsSign(")") || (!end.empty() && IsWord(end));
    };
    while (!at_end()) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr part,
                              conditional ? ParseExpression() : ParseOr());
      tuple->parts.push_back(std::move(part));
      if (!SkipSign(",")) break;
      comma = true;
    }
    if (!comma && tuple->parts.size() == 1) return std::move(tuple->parts[0]);
    if (!comma && !in_parentheses) return Unexpected("an expression");
    return Finish(std::move(tuple));
  }

  Made ParseExpression() {
    const Nested nested(*this);
    MNEMON_RETURN_IF_ERROR(nested.status());
    const int line = Now().line;
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
    while (SkipWord("if")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
      ExpressionPtr otherwise;
      if (SkipWord("else")) {
        MNEMON_ASSIGN_OR_RETURN(otherwise, ParseExpression());
      }
      MNEMON_ASSIGN_OR_RETURN(
          value, Finish(Expression::kConditional, line, "", std::move(condition),
                        std::move(value), std::move(otherwise)));
    }
    return value;
  }

  Made ParseOr() {
    const int line = Now().line;
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
    while (SkipWord("or")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
      MNEMON_ASSIGN_OR_RETURN(
          left, Finish(Expression::kOr, line, "", std::move(left), std::move(right)));
    }
    return left;
  }

  Made ParseAnd() {
    const int line = Now().line;
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
    while (SkipWord("and")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
      MNEMON_ASSIGN_OR_RETURN(
          left, Finish(Expression::kAnd, line, "", std::move(left), std::move(right)));
    }
    return left;
  }

  Made ParseNot() {
    const Nested nested(*this);
    MNEMON_RETURN_IF_ERROR(nested.status());
    const int line = Now().line;
    if (!SkipWord("not")) return ParseCompare();
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseNot());
    return Finish(Expression::kNot, line, "", std::move(value));
  }

  // The comparison at this position, or nothing.
  std::string TakeComparison() {
    for (const std::string_view sign : {"==", "!=", "<", "<=", ">", ">="}) {
      if (SkipSign(sign)) return std::string(sign);
    }
    if (SkipWord("in")) return "in";
    if (IsWord("not") && Is(Ahead(), Token::kName, "in")) {
      Take();
      Take();
      return "not in";
    }
    return "";
  }

  Made ParseCompare() {
    const int line = Now().line;
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseSum());
    auto made = New(Expression::kCompare, line);
    made->parts.push_back(std::move(first));
    while (true) {
      std::string comparison = TakeComparison();
      if (comparison.empty()) break;
      made->operators.push_back(std::move(comparison));
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr next, ParseSum());
      made->parts.push_back(std::move(next));
    }
    if (made->operators.empty()) return std::move(made->parts[0]);
    return Finish(std::move(made));
  }

  Made ParseBinary(Names signs, Made (Parser::*operand)()) {
    const int line = Now().line;
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
    while (Now().kind == Token::kOperator &&
           std::find(signs.begin(), signs.end(), Now().text) != signs.end()) {
      const std::string sign = Take().text;
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
      MNEMON_ASSIGN_OR_RETURN(left, Finish(Expression::kBinary, line, sign,
                                           std::move(left), std::move(right)));
    }
    return left;
  }

  Made ParseSum() { return ParseBinary({"+", "-"}, &Parser::ParseConcat); }

  Made ParseConcat() {
    auto made = New(Expression::kConcat, Now().line);
    do {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr part, ParseProduct());
      made->parts.push_back(std::move(part));
    } while (SkipSign("~"));
    if (made->parts.size() == 1) return std::move(made->parts[0]);
    return Finish(std::move(made));
  }

  Made ParseProduct() {
    return ParseBinary({"*", "/", "//", "%"}, &Parser::ParsePower);
  }
  // Left associative, unlike Python.
  Made ParsePower() { return ParseBinary({"**"}, &Parser::ParseFiltered); }

  Made ParseFiltered() {
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseUnary());
    while (true) {
      if (IsSign("|")) {
        MNEMON_ASSIGN_OR_RETURN(value, ParseFilters(std::move(value)));
      } else if (IsWord("is")) {
        MNEMON_ASSIGN_OR_RETURN(value, ParseTest(std::move(value)));
      } else if (IsSign("(")) {
        MNEMON_ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
      } else {
        return value;
      }
    }
  }

  Made ParseUnary() {
    const Nested nested(*this);
    MNEMON_RETURN_IF_ERROR(nested.status());
    const int line = Now().line;
    ExpressionPtr value;
    if (IsSign("-") || IsSign("+")) {
      const bool negative = Take().text == "-";
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr inner, ParseUnary());
      MNEMON_ASSIGN_OR_RETURN(
          value, Finish(negative ? Expression::kNegative : Expression::kPositive, line,
                        "", std::move(inner)));
    } else {
      MNEMON_ASSIGN_OR_RETURN(value, ParsePrimary());
    }
    return ParsePostfix(std::move(value));
  }

  Made ParsePostfix(ExpressionPtr value) {
    while (true) {
      if (IsSign(".")) {
        MNEMON_ASSIGN_OR_RETURN(value, ParseAttribute(std::move(value)));
      } else if (IsSign("[")) {
        MNEMON_ASSIGN_OR_RETURN(value, ParseSubscript(std::move(value)));
      } else if (IsSign("(")) {
        MNEMON_ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
      } else {
        return value;
      }
    }
  }

  Made ParseAttribute(ExpressionPtr of) {
    const int line = Take().line;
    if (Now().kind == Token::kInteger) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr index, ParsePrimary());
      return Finish(Expression::kItem, line, "", std::move(of), std::move(index));
    }
    MNEMON_ASSIGN_OR_RETURN(std::string name, ExpectName());
    return Finish(Expression::kAttribute, line, std::move(name), std::move(of));
  }

  Made ParseSubscript(ExpressionPtr of) {
    const int line = Take().line;
    ExpressionPtr parts[3];
    int colons = 0;
    while (!IsSign("]")) {
      if (colons < 2 && SkipSign(":")) {
        ++colons;
      } else if (parts[colons] == nullptr) {
        MNEMON_ASSIGN_OR_RETURN(parts[colons], ParseExpression());
      } else {
        return Unexpected("']'");
      }
    }
    Take();
    if (colons == 0) {
      if (parts[0] == nullptr) return FaultAt(line, "expected an index within [ ]");
      return Finish(Expression::kItem, line, "", std::move(of), std::move(parts[0]));
    }
    return Finish(Expression::kSlice, line, "", std::move(of), std::move(parts[0]),
                  std::move(parts[1]), std::move(parts[2]));
  }

  absl::StatusOr<CallArguments> ParseArguments() {
    const int line = Now().line;
    MNEMON_RETURN_IF_ERROR(ExpectSign("("));
    CallArguments made;
    for (bool first = true; !IsSign(")"); first = false) {
      if (!first) {
        MNEMON_RETURN_IF_ERROR(ExpectSign(","));
        if (IsSign(")")) break;
      }
      const bool named =
          Now().kind == Token::kName && Is(Ahead(), Token::kOperator, "=");
      const bool in_order =
          made.double_star == nullptr &&
          (named || IsSign("**") ||
           (made.star == nullptr && (IsSign("*") || made.named.empty())));
      if (!in_order) return FaultAt(line, "the arguments of a call are out of order");
      if (SkipSign("*")) {
        MNEMON_ASSIGN_OR_RETURN(made.star, ParseExpression());
      } else if (SkipSign("**")) {
        MNEMON_ASSIGN_OR_RETURN(made.double_star, ParseExpression());
      } else if (named) {
        std::string name = Take().text;
        Take();
        MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
        made.named.emplace_back(std::move(name), std::move(value));
      } else {
        MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
        made.positional.push_back(std::move(value));
      }
    }
    Take();
    return made;
  }

  Made ParseCall(ExpressionPtr callee) {
    auto made = New(Expression::kCall, Now().line);
    MNEMON_ASSIGN_OR_RETURN(made->arguments, ParseArguments());
    if (callee->kind == Expression::kName) {
      called_.emplace_back(callee->name, made->line);
    } else if (callee->kind == Expression::kAttribute && !IsMethodName(callee->name)) {
      return FaultAt(made->line, StrCat("unknown method ", Quoted(callee->name)));
    }
    made->parts.push_back(std::move(callee));
    return Finish(std::move(made));
  }

  // Each | and what follows it; without one, `value` unchanged.
  Made ParseFilters(ExpressionPtr value) {
    while (SkipSign("|")) {
      MNEMON_ASSIGN_OR_RETURN(value, ParseFilter(std::move(value)));
    }
    return value;
  }

  absl::StatusOr<std::string> ParseDottedName() {
    MNEMON_ASSIGN_OR_RETURN(std::string name, ExpectName());
    while (SkipSign(".")) {
      MNEMON_ASSIGN_OR_RETURN(const std::string part, ExpectName());
      name += "." + part;
    }
    return name;
  }

  // Name of a filter or test that another filter is given as a constant.
  static const std::string* NameGiven(const CallArguments& arguments, size_t place) {
    if (arguments.positional.size() <= place) return nullptr;
    const Text* text = arguments.positional[place]->value.text();
    return text == nullptr ? nullptr : &text->bytes;
  }

  Made ParseFilter(ExpressionPtr value) {
    auto made = New(Expression::kFilter, Now().line);
    MNEMON_ASSIGN_OR_RETURN(made->name, ParseDottedName());
    if (!IsFilter(made->name)) {
      return FaultAt(made->line, StrCat("unknown filter ", Quoted(made->name)));
    }
    if (IsSign("(")) {
      MNEMON_ASSIGN_OR_RETURN(made->arguments, ParseArguments());
    }
    const bool selects = made->name == "select" || made->name == "reject";
    const bool by_attribute = made->name == "selectattr" || made->name == "rejectattr";
    const std::string* given = NameGiven(made->arguments, by_attribute ? 1 : 0);
    if (given != nullptr && made->name == "map" && !IsFilter(*given)) {
      return FaultAt(made->line, StrCat("unknown filter ", Quoted(*given)));
    }
    if (given != nullptr && (selects || by_attribute) && !IsTest(*given)) {
      return FaultAt(made->line, StrCat("unknown test ", Quoted(*given)));
    }
    made->parts.push_back(std::move(value));
    return Finish(std::move(made));
  }

  Made ParseTest(ExpressionPtr value) {
    auto made = New(Expression::kTest, Take().line);
    const bool negated = SkipWord("not");
    MNEMON_ASSIGN_OR_RETURN(made->name, ParseDottedName());
    if (!IsTest(made->name)) {
      return FaultAt(made->line, StrCat("unknown test ", Quoted(made->name)));
    }
    const Token::Kind next = Now().kind;
    if (IsSign("(")) {
      MNEMON_ASSIGN_OR_RETURN(made->arguments, ParseArguments());
    } else if (IsWord("is")) {
      return Unexpected("one test");
    } else if ((next == Token::kName && !IsWord("else") && !IsWord("or") &&
                !IsWord("and")) ||
               next == Token::kString || next == Token::kInteger ||
               next == Token::kFloat || IsSign("[") || IsSign("{")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr primary, ParsePrimary());
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePostfix(std::move(primary)));
      made->arguments.positional.push_back(std::move(argument));
    }
    const int line = made->line;
    made->parts.push_back(std::move(value));
    MNEMON_ASSIGN_OR_RETURN(ExpressionPtr test, Finish(std::move(made)));
    if (!negated) return test;
    return Finish(Expression::kNot, line, "", std::move(test));
  }

  Made ParsePrimary() {
    const Token& token = Now();
    switch (token.kind) {
      case Token::kName:
        return ParseNameOrConstant();
      case Token::kString: {
        std::string text;
        while (Now().kind == Token::kString) text += Take().text;
        return Constant(token.line, Value::OfText(std::move(text)));
      }
      case Token::kInteger:
        return ParseInteger();
      case Token::kFloat: {
        double number = 0;
        Take();
        const char* const end = token.text.data() + token.text.size();
        const auto read = std::from_chars(token.text.data(), end, number);
        if (read.ec != std::errc())
          return FaultAt(token.line, "a float is out of range");
        return Constant(token.line, Value(number));
      }
      default:
        break;
    }
    if (SkipSign("(")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr inner, ParseTuple(/*conditional=*/true,
                                                              /*in_parentheses=*/true));
      MNEMON_RETURN_IF_ERROR(ExpectSign(")"));
      return inner;
    }
    if (IsSign("[")) return ParseList();
    if (IsSign("{")) return ParseDict();
    return Unexpected("an expression");
  }

  Made Constant(int line, Value value) const {
    auto made = New(Expression::kConstant, line);
    made->value = std::move(value);
    return Finish(std::move(made));
  }

  Made ParseNameOrConstant() {
    const Token& token = Take();
    if (token.text == "true" || token.text == "True") {
      return Constant(token.line, Value::OfBool(true));
    }
    if (token.text == "false" || token.text == "False") {
      return Constant(token.line, Value::OfBool(false));
    }
    if (IsConstantName(token.text)) return Constant(token.line, Value(None()));
    return Finish(Expression::kName, token.line, token.text);
  }

  Made ParseInteger() {
    const Token& token = Take();
    std::string_view digits = token.text;
    Int base = 10;
    if (digits.size() > 1 && digits[0] == '0' && (digits[1] | 0x20) > '9') {
      base = (digits[1] | 0x20) == 'b' ? 2 : (digits[1] | 0x20) == 'o' ? 8 : 16;
      digits.remove_prefix(2);
    }
    Int number = 0;
    for (const char c : digits) {
      const Int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      if (__builtin_mul_overflow(number, base, &number) ||
          __builtin_add_overflow(number, digit, &number)) {
        return FaultAt(token.line, "an int has more than 127 bits");
      }
    }
    return Constant(token.line, Value(number));
  }

  Made ParseList() {
    auto made = New(Expression::kList, Take().line);
    while (!IsSign("]")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr part, ParseExpression());
      made->parts.push_back(std::move(part));
      if (!SkipSign(",")) break;
    }
    MNEMON_RETURN_IF_ERROR(ExpectSign("]"));
    return Finish(std::move(made));
  }

  Made ParseDict() {
    auto made = New(Expression::kDict, Take().line);
    while (!IsSign("}")) {
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
      MNEMON_RETURN_IF_ERROR(ExpectSign(":"));
      MNEMON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      made->parts.push_back(std::move(key));
      made->parts.push_back(std::move(value));
      if (!SkipSign(",")) break;
    }
    MNEMON_RETURN_IF_ERROR(ExpectSign("}"));
    return Finish(std::move(made));
  }

  int nesting_ = 0;
  int loops_ = 0;               // loops around the current position
  bool assigned_loop_ = false;  // whether the name `loop` is assigned in a loop
  absl::flat_hash_set<std::string> assigned_;
  std::vector<std::pair<std::string, int>> called_;
};

}  // namespace

absl::StatusOr<Tree> ParseTree(std::string_view source) {
  MNEMON_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace mnemon::jinja
