// SPDX-License-Identifier: MIT
// Reader of the tokens of a template.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/quote.h"
#include "base/strings.h"
#include "model/text/jinja/lexer.h"

namespace mnemon::jinja {

// Used by one thread.
class TokenReader {
 public:
  // REQUIRES: the last token is Token::kEnd; the reader never passes it.
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& Now() const { return tokens_[at_]; }
  const Token& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& Take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  static bool Is(const Token& token, Token::Kind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool IsWord(std::string_view word) const { return Is(Now(), Token::kName, word); }
  bool IsSign(std::string_view sign) const { return Is(Now(), Token::kOperator, sign); }
  bool SkipWord(std::string_view word) {
    if (!IsWord(word)) return false;
    Take();
    return true;
  }
  bool SkipSign(std::string_view sign) {
    if (!IsSign(sign)) return false;
    Take();
    return true;
  }

  static std::string Describe(const Token& token) {
    switch (token.kind) {
      case Token::kVariableEnd:
        return "the end of {{ }}";
      case Token::kBlockEnd:
        return "the end of {% %}";
      case Token::kEnd:
        return "the end of the template";
      default:
        return Quoted(token.text);
    }
  }

  absl::Status Unexpected(std::string_view wanted) const {
    return FaultAt(Now().line, StrCat("expected ", wanted, ", not ", Describe(Now())));
  }
  absl::Status ExpectSign(std::string_view sign) {
    return SkipSign(sign) ? absl::OkStatus() : Unexpected(Quoted(sign));
  }
  absl::Status ExpectWord(std::string_view word) {
    return SkipWord(word) ? absl::OkStatus() : Unexpected(Quoted(word));
  }
  absl::StatusOr<std::string> ExpectName() {
    if (Now().kind != Token::kName) return Unexpected("a name");
    return Take().text;
  }
  absl::Status ExpectBlockEnd() {
    if (Now().kind != Token::kBlockEnd) return Unexpected("the end of {% %}");
    Take();
    return absl::OkStatus();
  }
  // Line of the last token taken; 1 before the first.
  int line_before() const { return at_ == 0 ? 1 : tokens_[at_ - 1].line; }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace mnemon::jinja
