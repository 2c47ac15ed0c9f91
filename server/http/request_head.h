// SPDX-License-Identifier: MIT
// The head of a request of HTTP/1, on its bytes as they came: whether others could read
// it in another way than this server does.
//
// A parser that is kind to what is almost HTTP lets a proxy and a server disagree where
// a request ends, which host it names and which page sent it. So each form that RFC
// 9110 and 9112 do not allow is refused, by name, and some that they only advise
// against: lists and repetitions of a field that has one value.
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

// Finds the end of a head in bytes that come piece by piece.
class HeadEnd {
 public:
  // `bytes`: all that have come, those of calls before included. The size of the head,
  // its empty line included; npos: it is not there yet.
  size_t Find(std::string_view bytes);
  // A line that does not end in CR LF, in what Find has seen before the end.
  bool broken() const { return broken_; }

 private:
  size_t seen_ = 0;
  bool broken_ = false;
};

// Of a whole head, its empty line included; absent: it is one of HTTP/1.0 or 1.1 that
// can be read in one way.
std::optional<HeadFault> CheckHead(std::string_view head);

// A target in absolute form, which CheckHead allows, without scheme and host; others as
// they are.
std::string_view WithoutAuthority(std::string_view target);

}  // namespace mnemon
