// SPDX-License-Identifier: MIT
#include "server/gateway/playground.h"

#include <string>

namespace mnemon {

// Generated from the folder playground.
extern const char kPlaygroundPage[];
extern const unsigned long kPlaygroundBytes;

HttpResponse PlaygroundPage() {
  return {.type = "text/html; charset=utf-8",
          .body = std::string(kPlaygroundPage, kPlaygroundBytes),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'unsafe-inline'; style-src "
                       "'unsafe-inline'; img-src data:; connect-src 'self'; base-uri "
                       "'none'; form-action 'none'; frame-ancestors 'none'"},
                      {"Referrer-Policy", "no-referrer"}}};
}

}  // namespace mnemon
