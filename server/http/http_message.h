// SPDX-License-Identifier: MIT
// Requests and responses of HTTP/1.1, as handlers see them.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mnemon {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // of the target, without the query; not decoded
  std::string query = {};
  std::vector<HttpHeader> headers = {};
  std::string body = {};  // empty until HttpExchange::ReadBody

  // The value of the first header of this name, in any case; empty: there is none.
  std::string_view Header(std::string_view name) const {
    const auto equal = [](unsigned char a, unsigned char b) {
      return std::tolower(a) == std::tolower(b);
    };
    for (const HttpHeader& header : headers) {
      if (std::equal(name.begin(), name.end(), header.name.begin(), header.name.end(),
                     equal)) {
        return header.value;
      }
    }
    return {};
  }
};

struct HttpResponse {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";  // empty: there is no body
  std::string body;
  std::vector<HttpHeader> headers = {};
};

}  // namespace mnemon
