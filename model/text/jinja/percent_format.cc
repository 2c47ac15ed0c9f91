// SPDX-License-Identifier: MIT
// `format % arguments` like Python's str, with the conversions s r a d i u f F e E g G
// x X o c and %.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/python_text.h"

namespace mnemon::jinja {
namespace {

struct Conversion {
  bool left = false, sign = false, space = false, alternate = false, zero = false;
  int64_t width = 0;
  int64_t precision = -1;
  char kind = 0;
};

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, std::string_view format, const Value& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {}

  absl::StatusOr<Value> Run() {
    while (at_ < format_.size()) {
      const size_t mark = std::min(Find(format_, "%", at_), format_.size());
      out_ += format_.substr(at_, mark - at_);
      at_ = mark;
      if (at_ == format_.size()) break;
      ++at_;
      MNEMON_RETURN_IF_ERROR(Convert());
      if (static_cast<int64_t>(out_.size()) > kMaxTextBytes) {
        return TooMuch("bytes of a string", kMaxTextBytes);
      }
    }
    const size_t given = arguments_.IsTuple() ? arguments_.sequence()->items.size() : 1;
    const bool all_used =
        arguments_.IsTuple() ? used_ == given : used_ == 1 || IsMapping();
    if (!all_used) return Fail("not all arguments are used by the format");
    return runtime_.NewText(std::move(out_));
  }

 private:
  // Whether Python takes it for a mapping: then there is no error if no conversion uses
  // it.
  bool IsMapping() const {
    return arguments_.dict() != nullptr || arguments_.IsList() ||
           (arguments_.sequence() != nullptr &&
            arguments_.sequence()->kind == Sequence::kRange) ||
           arguments_.undefined();
  }

  absl::StatusOr<Value> Next() {
    if (!arguments_.IsTuple()) {
      if (used_++ == 0) return arguments_;
    } else if (used_ < arguments_.sequence()->items.size()) {
      return arguments_.sequence()->items[used_++];
    }
    return Fail("too few arguments for the format");
  }

  absl::StatusOr<int64_t> Number() {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      MNEMON_ASSIGN_OR_RETURN(const Value value, Next());
      return IntOr(value, 0, "*");
    }
    int64_t number = 0;
    while (at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9') {
      number = std::min(number * 10 + (format_[at_++] - '0'), kMaxTextBytes + 1);
    }
    return number;
  }

  absl::Status Convert() {
    Conversion how;
    std::optional<Value> value;
    if (at_ < format_.size() && format_[at_] == '(') {
      if (arguments_.dict() == nullptr) return Fail("the format needs a mapping");
      size_t end = at_ + 1;
      for (int open = 1; end < format_.size(); ++end) {
        if (format_[end] == '(') ++open;
        if (format_[end] == ')' && --open == 0) break;
      }
      if (end == format_.size()) return Fail("a key of the format does not end");
      const std::string_view key = format_.substr(at_ + 1, end - at_ - 1);
      const Value* found = arguments_.dict()->Find(TextKey(key));
      if (found == nullptr) return Fail("the format needs the key ", Quoted(key));
      value = *found;
      used_ = 1;
      at_ = end + 1;
    }
    for (; at_ < format_.size(); ++at_) {
      const char flag = format_[at_];
      if (flag == '-') {
        how.left = true;
      } else if (flag == '+') {
        how.sign = true;
      } else if (flag == ' ') {
        how.space = true;
      } else if (flag == '#') {
        how.alternate = true;
      } else if (flag == '0') {
        how.zero = true;
      } else {
        break;
      }
    }
    MNEMON_ASSIGN_OR_RETURN(how.width, Number());
    if (how.width < 0) {
      how.left = true;
      how.width = -how.width;
    }
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      MNEMON_ASSIGN_OR_RETURN(how.precision, Number());
      how.precision = std::max<int64_t>(how.precision, 0);
    }
    while (at_ < format_.size() &&
           std::string_view("hlL").find(format_[at_]) != std::string_view::npos)
      ++at_;
    if (at_ == format_.size()) return Fail("the format ends within a conversion");
    how.kind = format_[at_++];
    if (how.kind == '%' && format_[at_ - 2] == '%') {
      out_ += '%';
      return absl::OkStatus();
    }
    if (!value.has_value()) {
      MNEMON_ASSIGN_OR_RETURN(value, Next());
    }
    return Append(how, *value);
  }

  absl::Status Append(const Conversion& how, const Value& value) {
    switch (how.kind) {
      case 's':
      case 'r':
      case 'a': {
        MNEMON_ASSIGN_OR_RETURN(std::string text, how.kind == 's'
                                                      ? Str(runtime_, value)
                                                      : Repr(runtime_, value));
        if (how.precision >= 0) text.resize(ByteOf(text, how.precision));
        return Pad(how, "", text, /*number=*/false);
      }
      case 'c':
        return AppendCharacter(how, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return AppendInt(how, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return AppendFloat(how, value);
      default:
        return Fail("the format has the unknown conversion ",
                    Quoted(std::string_view(&how.kind, 1)));
    }
  }

  absl::Status AppendCharacter(const Conversion& how, const Value& value) {
    std::string text;
    if (value.text() != nullptr && value.text()->length == 1) {
      text = value.text()->bytes;
    } else if (const auto code = value.integer(); code.has_value() && *code >= 0 &&
                                                  *code <= 0x10ffff &&
                                                  (*code < 0xd800 || *code > 0xdfff)) {
      AppendUtf8(static_cast<char32_t>(*code), text);
    } else {
      return Fail("%c needs an int or a character");
    }
    return Pad(how, "", text, /*number=*/false);
  }

  absl::Status AppendInt(const Conversion& how, const Value& value) {
    std::optional<Int> number = value.integer();
    const bool decimal = how.kind == 'd' || how.kind == 'i' || how.kind == 'u';
    if (decimal && value.number() != nullptr) {
      if (!(std::abs(*value.number()) < 0x1p100))
        return Fail("%d of too large a float");
      number = static_cast<Int>(*value.number());
    }
    if (!number.has_value()) {
      return Fail("%", std::string(1, how.kind), " needs a number, not a ",
                  value.type());
    }
    std::string digits = IntText(*number);
    const bool negative = *number < 0;
    if (negative) digits.erase(0, 1);
    std::string prefix = Sign(how, negative);
    if (!decimal) {
      const unsigned base = how.kind == 'o' ? 8 : 16;
      auto rest = static_cast<unsigned __int128>(*number);
      if (negative) rest = -rest;
      digits.clear();
      do {
        const auto digit = static_cast<unsigned>(rest % base);
        digits.insert(digits.begin(), (how.kind == 'X' ? "0123456789ABCDEF"
                                                       : "0123456789abcdef")[digit]);
        rest /= base;
      } while (rest != 0);
      if (how.alternate) prefix += StrCat("0", std::string(1, how.kind));
    }
    const int64_t missing = how.precision - static_cast<int64_t>(digits.size());
    MNEMON_RETURN_IF_ERROR(runtime_.SpendText(std::max<int64_t>(missing, 0)));
    if (missing > 0) digits.insert(0, static_cast<size_t>(missing), '0');
    return Pad(how, prefix, digits, /*number=*/true);
  }

  absl::Status AppendFloat(const Conversion& how, const Value& value) {
    std::optional<double> number = value.real();
    if (!number.has_value()) {
      return Fail("%", std::string(1, how.kind), " needs a number, not a ",
                  value.type());
    }
    constexpr int64_t kMost = 1000;
    const int64_t precision = how.precision < 0 ? 6 : how.precision;
    if (precision > kMost) return TooMuch("digits of a float", kMost);
    const std::string format =
        StrCat(how.alternate ? "%#.*" : "%.*", std::string(1, how.kind));
    char digits[2048];
    std::snprintf(digits, sizeof digits, format.c_str(), static_cast<int>(precision),
                  std::abs(*number));
    return Pad(how, Sign(how, std::signbit(*number) && !std::isnan(*number)), digits,
               /*number=*/true);
  }

  static std::string Sign(const Conversion& how, bool negative) {
    return negative ? "-" : how.sign ? "+" : how.space ? " " : "";
  }

  absl::Status Pad(const Conversion& how, std::string_view prefix,
                   std::string_view text, bool number) {
    const int64_t missing =
        std::max<int64_t>(0, how.width - CodePoints(prefix) - CodePoints(text));
    MNEMON_RETURN_IF_ERROR(
        runtime_.SpendText(missing + static_cast<int64_t>(text.size())));
    const auto count = static_cast<size_t>(missing);
    const bool zeros = number && how.zero && !how.left;
    if (!how.left && !zeros) out_.append(count, ' ');
    out_ += prefix;
    if (zeros) out_.append(count, '0');
    out_ += text;
    if (how.left) out_.append(count, ' ');
    return absl::OkStatus();
  }

  Runtime& runtime_;
  const std::string_view format_;
  const Value& arguments_;
  size_t at_ = 0;
  size_t used_ = 0;
  std::string out_;
};

}  // namespace

absl::StatusOr<Value> FormatPercent(Runtime& runtime, std::string_view format,
                                    const Value& arguments) {
  MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(format.size())));
  return PercentFormat(runtime, format, arguments).Run();
}

}  // namespace mnemon::jinja
