// SPDX-License-Identifier: MIT
#include "tests/train/report/well_formed.h"

#include <regex>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"

namespace mnemon {
namespace {

std::string Fault(std::string_view what, std::string_view at) {
  return StrCat(what, ": ", at.substr(0, 80));
}

// Text between tags, and values of attributes.
bool IsText(std::string_view text) {
  if (text.find('<') != text.npos) return false;
  for (size_t at; (at = text.find('&')) != text.npos; text.remove_prefix(at + 1)) {
    const std::string_view name = text.substr(at, text.find(';', at) - at);
    if (name != "&lt" && name != "&gt" && name != "&amp" && name != "&quot")
      return false;
  }
  return true;
}

}  // namespace

std::string MarkupFault(std::string_view text, bool html) {
  if (!IsValidUtf8(text)) return "not UTF-8";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      return "a control character";
    }
  }
  static const std::regex tag(
      R"re(<(/?)([A-Za-z][A-Za-z0-9]*)((?:\s+[A-Za-z:-]+(?:="[^"<]*")?)*)\s*(/?)>)re");
  std::vector<std::string> open;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t begin = rest.find('<');
    if (!IsText(rest.substr(0, begin))) return Fault("bad text", rest);
    if (begin == rest.npos) break;
    rest.remove_prefix(begin);
    const size_t end = rest.find('>');
    if (end == rest.npos) return Fault("an open tag", rest);
    const std::string whole(rest.substr(0, end + 1));
    const std::string_view after = rest.substr(end + 1);
    if (open.empty() && (whole.starts_with("<?xml") || whole == "<!DOCTYPE html>")) {
      rest = after;
      continue;
    }
    // Long paths are no task for a matcher that recurses.
    const size_t d = whole.find(" d=\"");
    std::string shown = whole;
    if (d != whole.npos) shown.erase(d, whole.find('"', d + 4) + 1 - d);
    std::smatch match;
    if (!std::regex_match(shown, match, tag)) return Fault("bad tag", rest);
    if (!IsText(match[3].str())) return Fault("bad attribute", rest);
    const std::string name = match[2];
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != name) return Fault("wrong end", rest);
      open.pop_back();
    } else if (match[4].length() == 0 && !(html && name == "meta")) {
      open.push_back(name);
    }
    rest = after;
    if (html && name == "style" && match[1].length() == 0) {
      const size_t style = rest.find("</style>");
      if (style == rest.npos) return "a style without an end";
      rest.remove_prefix(style);
    }
  }
  return open.empty() ? "" : StrCat("no end of ", open.back());
}

}  // namespace mnemon
