// SPDX-License-Identifier: MIT
#include "model/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/unicode/unicode.h"

namespace mnemon {
namespace {

constexpr size_t kMostBytes = 64 << 10;  // size of an expression with its classes
constexpr uint32_t kMostSteps = 10'000'000, kMostDepth = 10'000,
                   kMostHeap = 64 << 10;  // KiB

absl::Status Fault(std::string_view expression, std::string_view what) {
  return absl::InvalidArgumentError(
      StrCat("regular expression ", Quoted(expression), ": ", what));
}

// Ranges of a class for use within brackets, or of the complement.
std::string Ranges(CharacterClass of, bool others) {
  std::string text;
  const auto add = [&](char32_t first, char32_t last) {
    if (first > last) return;
    // Surrogates are not characters, and PCRE2 refuses them.
    if (first < 0xD800 && last > 0xDFFF) {
      absl::StrAppendFormat(&text, "\\x{%x}-\\x{d7ff}", static_cast<uint32_t>(first));
      absl::StrAppendFormat(&text, "\\x{e000}-\\x{%x}", static_cast<uint32_t>(last));
      return;
    }
    if (first >= 0xD800 && first <= 0xDFFF) first = 0xE000;
    if (last >= 0xD800 && last <= 0xDFFF) last = 0xD7FF;
    if (first > last) return;
    absl::StrAppendFormat(&text, "\\x{%x}-\\x{%x}", static_cast<uint32_t>(first),
                          static_cast<uint32_t>(last));
  };
  char32_t next = 0;
  for (const unicode::CodeRange& range : RangesOf(of)) {
    if (!others) {
      add(range.first, range.last);
    } else if (range.first > next) {
      add(next, range.first - 1);
    }
    next = range.last + 1;
  }
  if (others) add(next, 0x10FFFF);
  return text;
}

// The class of an escape such as \p{L} or \S, at `at` after the '\'.
struct Escape {
  std::optional<CharacterClass> of;
  bool others = false;
  size_t length = 1;  // after the '\'
};
absl::StatusOr<Escape> ReadEscape(std::string_view expression, size_t at) {
  const char kind = expression[at];
  switch (kind) {
    case 's':
    case 'S':
      return Escape{CharacterClass::kSpace, kind == 'S'};
    case 'd':
    case 'D':
      return Escape{CharacterClass::kDigit, kind == 'D'};
    case 'w':
    case 'W':
      return Escape{CharacterClass::kWord, kind == 'W'};
    case 'p':
    case 'P': {
      size_t end = at + 1;
      std::string_view name = expression.substr(std::min(end, expression.size()), 1);
      if (name == "{") {
        end = expression.find('}', at);
        if (end == expression.npos) return Fault(expression, "\\p{ without }");
        name = expression.substr(at + 2, end - at - 2);
      }
      bool others = kind == 'P';
      if (name.starts_with('^')) {
        name.remove_prefix(1);
        others = !others;
      }
      const size_t length = end - at + 1;
      if (name == "L") return Escape{CharacterClass::kLetter, others, length};
      if (name == "N") return Escape{CharacterClass::kNumber, others, length};
      if (name == "M") return Escape{CharacterClass::kMark, others, length};
      return Fault(expression, StrCat("the property ", Quoted(name),
                                      " is not supported; supported: L, N, M"));
    }
    default:
      break;
  }
  constexpr std::string_view kPlain = "nrtfvae0xuU";
  const bool letter = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z') ||
                      (kind >= '0' && kind <= '9');
  if (letter && kPlain.find(kind) == kPlain.npos) {
    return Fault(expression, StrCat("\\", std::string(1, kind), " is not supported"));
  }
  return Escape{};
}

// Expands the classes.
absl::StatusOr<std::string> WrittenOut(std::string_view expression) {
  std::string out;
  bool inside = false;  // within brackets
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c != '\\') {
      if (inside && c == '[') return Fault(expression, "[ within [] is not supported");
      if (!inside && c == '[') {
        inside = true;
        out += c;
        // A leading ']' is a character.
        if (expression.substr(i + 1).starts_with('^')) out += expression[++i];
        if (expression.substr(i + 1).starts_with(']')) {
          out += "\\]";
          ++i;
        }
        continue;
      }
      if (inside && c == ']') inside = false;
      out += c;
      continue;
    }
    if (i + 1 == expression.size()) return Fault(expression, "it ends with \\");
    MNEMON_ASSIGN_OR_RETURN(const Escape escape, ReadEscape(expression, i + 1));
    if (!escape.of) {
      out += expression.substr(i, 2);
      ++i;
      continue;
    }
    const std::string ranges = Ranges(*escape.of, inside && escape.others);
    out += inside ? ranges : StrCat(escape.others ? "[^" : "[", ranges, "]");
    i += escape.length;
    if (out.size() > kMostBytes) return Fault(expression, "it is too long");
  }
  return out;
}

std::string MessageOf(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

Pattern::Pattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

absl::StatusOr<Pattern> Pattern::Compile(std::string_view expression) {
  MNEMON_ASSIGN_OR_RETURN(const std::string whole, WrittenOut(expression));
  auto code = std::make_unique<Code>();
  int error = 0;
  size_t at = 0;
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(),
                    PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE, &error,
                    &at, nullptr);
  if (code->code == nullptr) return Fault(expression, MessageOf(error));
  code->limits = pcre2_match_context_create(nullptr);
  if (code->limits == nullptr) return Fault(expression, "no memory");
  pcre2_set_match_limit(code->limits, kMostSteps);
  pcre2_set_depth_limit(code->limits, kMostDepth);
  pcre2_set_heap_limit(code->limits, kMostHeap);
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // on failure it is interpreted
  return Pattern(std::move(code));
}

absl::StatusOr<std::optional<Pattern::Match>> Pattern::Find(std::string_view text,
                                                            size_t from) const {
  // One for each thread: a pattern of a tokenizer has no captures.
  thread_local const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)>
      found(pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const int count =
      pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                  from, PCRE2_NO_UTF_CHECK, found.get(), code_->limits);
  if (count == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  if (count < 0) {
    return absl::ResourceExhaustedError(StrCat(
        "a regular expression of the tokenizer on this text: ", MessageOf(count)));
  }
  const size_t* const ends = pcre2_get_ovector_pointer(found.get());
  return std::optional<Match>({ends[0], ends[1]});
}

}  // namespace mnemon
