// SPDX-License-Identifier: MIT
// Strict checks of the head of an HTTP/1 request, on its bytes as they came.
//
// A parser that accepts what is almost HTTP lets a proxy and a server disagree about
// where a request ends, which host it names and which page sent it. So each form that
// RFC 9110 and 9112 do not allow is refused by name, and so are repetitions of headers
// that have one value, which they only advise against.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mnemon {

struct HeadFault {
  int code = 400;
  const char* reason = "MALFORMED_REQUEST";
  std::string message;  // needs no escapes in JSON
};

// Finds the end of a head that arrives piece by piece.
class HeadEnd {
 public:
  // `bytes`: all that have arrived so far. Returns the size of the head, its empty line
  // included; npos: it is not complete.
  size_t Find(std::string_view bytes);
  // Find has seen a line that does not end in CR LF.
  bool broken() const { return broken_; }

 private:
  size_t seen_ = 0;
  bool broken_ = false;
};

// The fault of a whole head, its empty line included; absent: it is a head of HTTP/1.0
// or 1.1 that can be read in one way only.
std::optional<HeadFault> CheckHead(std::string_view head);

// A target without the scheme and host of its absolute form, which CheckHead allows.
std::string_view WithoutAuthority(std::string_view target);

}  // namespace mnemon
