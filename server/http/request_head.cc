// SPDX-License-Identifier: MIT
#include "server/http/request_head.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHttp = "http://";
// Bytes of a header's name in a message. A name is a token, which needs no escapes.
constexpr size_t kMostNamed = 40;

// Headers that a request has at most once, in lower case.
constexpr std::string_view kSingle[] = {
    "host",          "content-length", "transfer-encoding", "content-type", "origin",
    "authorization", "expect",         "content-encoding",  "x-request-id"};

struct Field {
  std::string name;  // in lower case
  std::string_view value;
};

std::string Lower(std::string_view text) {
  return absl::AsciiStrToLower({text.data(), text.size()});
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string::npos;
  });
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// uri-host [ ":" port ], or empty.
bool IsHost(std::string_view text) {
  const size_t end = text.starts_with('[') ? text.find(']') : text.find(':');
  if (text.starts_with('[') && end == std::string_view::npos) return false;
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(c) ||
           std::string_view("-._~!$&'()*+;=%").find(c) != std::string::npos;
  };
  std::string_view host = text.substr(0, end);
  std::string_view rest = text.substr(host.size());
  if (text.starts_with('[')) {
    host.remove_prefix(1);
    rest.remove_prefix(1);
    if (!std::all_of(host.begin(), host.end(),
                     [&](char c) { return allowed(c) || c == ':'; })) {
      return false;
    }
  } else if (!std::all_of(host.begin(), host.end(), allowed)) {
    return false;
  }
  if (rest.empty()) return true;
  return rest.front() == ':' &&
         std::all_of(rest.begin() + 1, rest.end(), absl::ascii_isdigit);
}

std::optional<HeadFault> Malformed(std::string message) {
  return HeadFault{.message = std::move(message)};
}

std::optional<HeadFault> CheckTarget(std::string_view method, std::string_view target,
                                     std::string_view& authority) {
  if (std::any_of(target.begin(), target.end(), absl::ascii_iscntrl) ||
      target.find('#') != std::string_view::npos) {
    return Malformed("the target has a character that no target has");
  }
  if (target.starts_with('/') || (target == "*" && method == "OPTIONS")) return {};
  if (Lower(target.substr(0, kHttp.size())) != kHttp) {
    return Malformed("the target must be a path, or begin with http://");
  }
  const std::string_view rest = target.substr(kHttp.size());
  authority = rest.substr(0, rest.find_first_of("/?"));
  if (authority.empty()) return Malformed("the target names no host");
  return {};
}

std::optional<HeadFault> CheckRequestLine(std::string_view line,
                                          std::string_view& authority, bool& old) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return Malformed("this is not a request of HTTP/1");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!IsToken(method) || (version != "HTTP/1.1" && version != "HTTP/1.0")) {
    return Malformed("this is not a request of HTTP/1");
  }
  if (target.empty() || target.find(' ') != std::string_view::npos) {
    return Malformed("the request line has a space too many");
  }
  old = version == "HTTP/1.0";
  return CheckTarget(method, target, authority);
}

std::optional<HeadFault> ReadFields(std::string_view lines,
                                    std::vector<Field>& fields) {
  while (!lines.empty()) {
    const size_t end = lines.find(kLineEnd);
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + kLineEnd.size());
    if (line.starts_with(' ') || line.starts_with('\t')) {
      return Malformed("a header is continued on a second line");
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return Malformed("a header has no colon");
    const std::string_view name = line.substr(0, colon);
    if (!IsToken(name)) {
      return Malformed(
          "the name of a header is empty, or has a space or another "
          "character that no name has");
    }
    const std::string_view value = Trimmed(line.substr(colon + 1));
    if (std::any_of(value.begin(), value.end(),
                    [](char c) { return absl::ascii_iscntrl(c) && c != '\t'; })) {
      return Malformed(StrCat("the header ", name.substr(0, kMostNamed),
                              " has a control character"));
    }
    fields.push_back({.name = Lower(name), .value = value});
  }
  return {};
}

const Field* Find(const std::vector<Field>& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

std::optional<HeadFault> CheckSingle(const std::vector<Field>& fields) {
  for (const std::string_view name : kSingle) {
    if (std::ranges::count(fields, name, &Field::name) > 1) {
      return Malformed(StrCat("the header ", name, " is there twice"));
    }
  }
  return {};
}

std::optional<HeadFault> CheckHosts(const std::vector<Field>& fields,
                                    std::string_view authority, bool old) {
  const Field* const host = Find(fields, "host");
  if (host == nullptr) {
    if (!old) return Malformed("the header Host is missing");
    return authority.empty()
               ? std::nullopt
               : Malformed("the target names a host, the header Host none");
  }
  if (!IsHost(host->value)) return Malformed("the header Host is not a host");
  if (!authority.empty() && Lower(authority) != Lower(host->value)) {
    return Malformed("the target names another host than the header Host");
  }
  return {};
}

std::optional<HeadFault> CheckCoding(std::string_view value) {
  const std::string coding = Lower(value);
  if (coding == "chunked") return {};
  constexpr std::string_view kLast = "chunked";
  const size_t comma = coding.rfind(',');
  const bool last = comma != std::string::npos &&
                    Trimmed(std::string_view(coding).substr(comma + 1)) == kLast;
  const std::string_view before =
      std::string_view(coding).substr(0, last ? comma : coding.size());
  if (!last || before.find(kLast) != std::string_view::npos ||
      Trimmed(before).empty()) {
    return Malformed("the header Transfer-Encoding must be chunked");
  }
  return HeadFault{.code = 501,
                   .reason = "TRANSFER_CODING_UNKNOWN",
                   .message =
                       "the header Transfer-Encoding names another coding than "
                       "chunked"};
}

std::optional<HeadFault> CheckLength(const std::vector<Field>& fields, bool old) {
  const Field* const coding = Find(fields, "transfer-encoding");
  const Field* const length = Find(fields, "content-length");
  if (coding != nullptr && length != nullptr) {
    return Malformed(
        "of the headers Content-Length and Transfer-Encoding a request has "
        "one");
  }
  if (coding != nullptr) {
    if (old) return Malformed("HTTP/1.0 has no header Transfer-Encoding");
    return CheckCoding(coding->value);
  }
  if (length == nullptr) return {};
  constexpr size_t kMostDigits = 18;
  const std::string_view digits = length->value;
  if (digits.empty() || digits.size() > kMostDigits ||
      !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit)) {
    return Malformed("the header Content-Length must be one number");
  }
  return {};
}

}  // namespace

size_t HeadEnd::Find(std::string_view bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  // The last byte received may be a CR.
  for (; seen_ + 1 < bytes.size(); ++seen_) {
    const char now = bytes[seen_];
    const char next = bytes[seen_ + 1];
    if ((now == '\r') != (next == '\n') || (seen_ == 0 && now == '\n')) {
      broken_ = true;
      return std::string_view::npos;
    }
    if (next == '\n' && seen_ + 2 >= kEnd.size() &&
        bytes.substr(seen_ + 2 - kEnd.size(), kEnd.size()) == kEnd) {
      return seen_ + 2;
    }
  }
  return std::string_view::npos;
}

std::optional<HeadFault> CheckHead(std::string_view head) {
  const size_t end = head.find(kLineEnd);
  std::string_view authority;
  bool old = false;
  if (auto fault = CheckRequestLine(head.substr(0, end), authority, old)) return fault;
  std::string_view lines = head.substr(end + kLineEnd.size());
  lines.remove_suffix(kLineEnd.size());
  std::vector<Field> fields;
  if (auto fault = ReadFields(lines, fields)) return fault;
  if (auto fault = CheckSingle(fields)) return fault;
  if (auto fault = CheckHosts(fields, authority, old)) return fault;
  return CheckLength(fields, old);
}

std::string_view WithoutAuthority(std::string_view target) {
  if (target.starts_with('/') || target == "*") return target;
  const size_t path = target.find_first_of("/?", kHttp.size());
  return path == std::string_view::npos ? "/" : target.substr(path);
}

}  // namespace mnemon
