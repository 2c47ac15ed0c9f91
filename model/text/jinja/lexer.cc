// SPDX-License-Identifier: MIT
#include "model/text/jinja/lexer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "model/text/jinja/python_text.h"
#include "model/text/unicode/unicode.h"

namespace mnemon::jinja {

absl::Status FaultAt(int line, std::string_view what) {
  return absl::InvalidArgumentError(StrCat("line ", line, ": ", what));
}

namespace {

bool IsDigitByte(char c) { return c >= '0' && c <= '9'; }

// Normalises all line ends to \n and removes the last one.
std::string WithPlainLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(WithPlainLines(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) MNEMON_RETURN_IF_ERROR(ReadData());
    Add(Token::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool At(std::string_view text) const { return Rest().starts_with(text); }
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  absl::Status Fault(std::string_view what) const { return FaultAt(line_, what); }

  void Add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text)});
  }

  void MoveTo(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to),
                                         '\n'));
    at_ = to;
  }

  void SkipSpace() {
    size_t to = at_;
    while (const size_t bytes = SpaceBytes(source_, to)) to += bytes;
    MoveTo(to);
  }

  // The mark after the two characters of a begin: - or + or none.
  char MarkAt(size_t at) const {
    if (at >= source_.size()) return 0;
    return source_[at] == '-' || source_[at] == '+' ? source_[at] : '\0';
  }

  // Adds the data before `end`, where a tag with `mark` begins.
  void AddData(size_t end, char mark, bool variable) {
    std::string_view data = std::string_view(source_).substr(at_, end - at_);
    if (mark == '-') {
      data = Strip(data, Side::kRight);
    } else if (mark != '+' && !variable) {
      const size_t line_begin = data.rfind('\n') + 1;
      const bool at_line_begin = at_ == 0 || source_[at_ - 1] == '\n';
      if ((line_begin > 0 || at_line_begin) &&
          Strip(data.substr(line_begin), Side::kLeft).empty()) {
        data = data.substr(0, line_begin);
      }
    }
    if (!data.empty()) Add(Token::kData, std::string(data));
    MoveTo(end);
  }

  // Called after the end of a block, comment or raw block: removes its line end.
  void TrimLine() {
    if (At("\n")) MoveTo(at_ + 1);
  }

  absl::Status ReadData() {
    size_t begin = at_;
    while (true) {
      begin = source_.find('{', begin);
      if (begin == std::string::npos || begin + 1 == source_.size()) {
        AddData(source_.size(), '+', /*variable=*/false);
        return absl::OkStatus();
      }
      const char next = source_[begin + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++begin;
    }
    const char kind = source_[begin + 1];
    const char mark = MarkAt(begin + 2);
    AddData(begin, mark, kind == '{');
    if (kind == '#') return SkipComment(mark);
    if (kind == '%') {
      if (const std::optional<size_t> raw = RawBegin()) return ReadRaw(*raw);
    }
    Add(kind == '{' ? Token::kVariableBegin : Token::kBlockBegin, "");
    MoveTo(at_ + 2 + (mark != 0 ? 1 : 0));
    return ReadTag(kind == '{');
  }

  absl::Status SkipComment(char mark) {
    const size_t text = at_ + 2 + (mark != 0 ? 1 : 0);
    const size_t end = source_.find("#}", text);
    if (end == std::string::npos) {
      // An empty comment at the end of a template is allowed, and so is a raw block.
      if (text < source_.size()) return Fault("a comment does not end");
      at_ = text;
      return absl::OkStatus();
    }
    const char end_mark = end > text ? source_[end - 1] : '\0';
    MoveTo(end + 2);
    if (end_mark == '-') {
      SkipSpace();
    } else if (end_mark != '+') {
      TrimLine();
    }
    return absl::OkStatus();
  }

  size_t AfterSpace(size_t at) const {
    while (const size_t bytes = SpaceBytes(source_, at)) at += bytes;
    return at;
  }

  // Position of the end mark of the tag `word` at `at`; nullopt if it is another tag.
  std::optional<size_t> PlainTag(size_t at, std::string_view word) const {
    at += 2;
    if (MarkAt(at) != 0) ++at;
    at = AfterSpace(at);
    if (!std::string_view(source_).substr(at).starts_with(word)) return std::nullopt;
    return AfterSpace(at + word.size());
  }

  // Start of the text of a raw block, if there is one here.
  std::optional<size_t> RawBegin() const {
    const std::optional<size_t> end = PlainTag(at_, "raw");
    if (!end.has_value()) return std::nullopt;
    const std::string_view rest = std::string_view(source_).substr(*end);
    if (rest.starts_with("-%}")) return AfterSpace(*end + 3);
    if (rest.starts_with("%}")) return *end + 2;
    return std::nullopt;
  }

  absl::Status ReadRaw(size_t text) {
    const int line = line_;
    MoveTo(text);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const std::optional<size_t> end = PlainTag(tag, "endraw");
      if (!end.has_value()) continue;
      const char end_mark = MarkAt(*end);
      const size_t close = *end + (end_mark != 0 ? 1 : 0);
      if (!std::string_view(source_).substr(close).starts_with("%}")) continue;
      AddData(tag, MarkAt(tag + 2), /*variable=*/false);
      MoveTo(close + 2);
      if (end_mark == '-') {
        SkipSpace();
      } else if (end_mark == 0) {
        TrimLine();
      }
      return absl::OkStatus();
    }
    return at_ == source_.size() ? absl::OkStatus()
                                 : FaultAt(line, "a raw block does not end");
  }

  // Reads the end of the tag, if it is here.
  bool ReadEnd(bool variable) {
    if (!open_.empty()) return false;
    const std::string_view close = variable ? "}}" : "%}";
    const char mark = MarkAt(at_);
    if (mark == '+' && variable) return false;
    if (!std::string_view(source_)
             .substr(at_ + (mark != 0 ? 1 : 0))
             .starts_with(close)) {
      return false;
    }
    Add(variable ? Token::kVariableEnd : Token::kBlockEnd, "");
    MoveTo(at_ + (mark != 0 ? 3 : 2));
    if (mark == '-') {
      SkipSpace();
    } else if (mark == 0 && !variable) {
      TrimLine();
    }
    return true;
  }

  absl::Status ReadTag(bool variable) {
    const int line = line_;
    open_.clear();
    while (at_ < source_.size()) {
      if (ReadEnd(variable)) return absl::OkStatus();
      if (SpaceBytes(source_, at_) != 0) {
        SkipSpace();
      } else if (IsDigitByte(source_[at_])) {
        ReadNumber();
      } else if (source_[at_] == '\'' || source_[at_] == '"') {
        MNEMON_RETURN_IF_ERROR(ReadString());
      } else if (IsIn(CharacterClass::kWord, CodePointAt(source_, at_))) {
        ReadName();
      } else {
        MNEMON_RETURN_IF_ERROR(ReadOperator());
      }
    }
    return FaultAt(line, variable ? "a {{ does not end" : "a {% does not end");
  }

  void ReadName() {
    size_t end = at_;
    while (end < source_.size() &&
           IsIn(CharacterClass::kWord, CodePointAt(source_, end))) {
      end += CodePointBytes(source_, end);
    }
    Add(Token::kName, source_.substr(at_, end - at_));
    at_ = end;
  }

  // Reads digits accepted by `is_digit`, with single _ between them; returns the
  // position after them.
  template <class IsDigit>
  size_t Digits(size_t at, IsDigit is_digit) const {
    while (at < source_.size()) {
      const size_t digit = source_[at] == '_' ? at + 1 : at;
      if (digit >= source_.size() || !is_digit(source_[digit])) break;
      at = digit + 1;
    }
    return at;
  }

  void AddNumber(Token::Kind kind, size_t end) {
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    Add(kind, std::move(text));
    at_ = end;
  }

  void ReadNumber() {
    const auto digit_at = [&](size_t at) {
      return at < source_.size() && IsDigitByte(source_[at]);
    };
    size_t end = Digits(at_, IsDigitByte);
    bool is_float = false;
    if (at_ == 0 || source_[at_ - 1] != '.') {
      if (end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
        is_float = true;
        end = Digits(end + 1, IsDigitByte);
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        const size_t sign = end + 1 < source_.size() &&
                            (source_[end + 1] == '+' || source_[end + 1] == '-');
        if (digit_at(end + 1 + sign)) {
          is_float = true;
          end = Digits(end + 1 + sign, IsDigitByte);
        }
      }
    }
    if (is_float) return AddNumber(Token::kFloat, end);
    if (source_[at_] == '0') {
      const char base = at_ + 1 < source_.size() ? source_[at_ + 1] | 0x20 : '\0';
      const auto is_digit = [&](char c) {
        if (base == 'b') return c == '0' || c == '1';
        if (base == 'o') return c >= '0' && c <= '7';
        return IsDigitByte(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
      };
      if (base == 'b' || base == 'o' || base == 'x') {
        const size_t digits = Digits(at_ + 2, is_digit);
        if (digits > at_ + 2) return AddNumber(Token::kInteger, digits);
      }
      return AddNumber(Token::kInteger, Digits(at_, [](char c) { return c == '0'; }));
    }
    AddNumber(Token::kInteger, end);
  }

  absl::Status ReadString() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) return Fault("a string does not end");
    MNEMON_ASSIGN_OR_RETURN(
        std::string text,
        Unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    Add(Token::kString, std::move(text));
    MoveTo(end + 1);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Unescaped(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '\\') {
        out += text[i++];
        continue;
      }
      const char c = text[i + 1];
      i += 2;
      constexpr std::string_view kNamed = "\\'\"abfnrtv";
      constexpr std::string_view kMeant = "\\'\"\a\b\f\n\r\t\v";
      const size_t named = kNamed.find(c);
      if (c == '\n') continue;
      if (named != std::string_view::npos) {
        out += kMeant[named];
      } else if (c >= '0' && c <= '7') {
        char32_t code = 0;
        --i;
        for (int n = 0; n < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7';
             ++n) {
          code = code * 8 + static_cast<char32_t>(text[i++] - '0');
        }
        AppendUtf8(code, out);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        MNEMON_RETURN_IF_ERROR(AppendHex(text.substr(i, digits), digits, out));
        i += digits;
      } else if (c == 'N') {
        return Fault("the escape \\N{...} is not supported");
      } else {
        out += '\\';
        // jinja2 has already escaped what is not ASCII, and the backslash before those
        // hides them.
        if (static_cast<unsigned char>(c) < 0x80) {
          out += c;
        } else {
          const char32_t code = CodePointAt(text, i - 1);
          out += HiddenEscape(code);
          i += CodePointBytes(text, i - 1) - 1;
        }
      }
    }
    return out;
  }

  static std::string HiddenEscape(char32_t code) {
    std::string digits;
    for (int shift = code < 0x100     ? 4
                     : code < 0x10000 ? 12
                                      : 28;
         shift >= 0; shift -= 4) {
      digits += "0123456789abcdef"[(code >> shift) & 15];
    }
    return StrCat(code < 0x100 ? "x" : code < 0x10000 ? "u" : "U", digits);
  }

  absl::Status AppendHex(std::string_view digits, size_t wanted,
                         std::string& out) const {
    char32_t code = 0;
    size_t read = 0;
    for (; read < digits.size(); ++read) {
      const size_t value = std::string_view("0123456789abcdef")
                               .find(static_cast<char>(digits[read] | 0x20));
      if (value == std::string_view::npos) break;
      code = code * 16 + static_cast<char32_t>(value);
    }
    if (read < wanted) return Fault("an escape in a string lacks digits");
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
      return Fault("an escape in a string is not a Unicode character");
    }
    AppendUtf8(code, out);
    return absl::OkStatus();
  }

  absl::Status ReadOperator() {
    constexpr std::string_view kOperators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view symbol : kOperators) {
      if (!At(symbol)) continue;
      if (symbol == "{" || symbol == "(" || symbol == "[") {
        open_ += symbol == "{" ? '}' : symbol == "(" ? ')' : ']';
      } else if (symbol == "}" || symbol == ")" || symbol == "]") {
        if (open_.empty() || open_.back() != symbol[0]) {
          return Fault(StrCat("unexpected ", Quoted(symbol)));
        }
        open_.pop_back();
      }
      Add(Token::kOperator, std::string(symbol));
      at_ += symbol.size();
      return absl::OkStatus();
    }
    return Fault(StrCat("unexpected character ",
                        Quoted(Rest().substr(0, CodePointBytes(source_, at_)))));
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::string open_;  // open brackets
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace mnemon::jinja
