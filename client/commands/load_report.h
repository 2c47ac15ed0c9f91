// SPDX-License-Identifier: MIT
// The result of a load as a table for people and as JSON for programs.
#pragma once

#include <string>

#include "client/client.h"
#include "client/load/load.h"

namespace mnemon::client {

// What was measured.
struct LoadSubject {
  std::string server;
  ModelSummary model;
  LoadOptions options;
};

// Lines of text; names that the server gave are escaped for a terminal.
std::string LoadTable(const LoadSubject& subject, const LoadResult& result);
// One object, on one line. docs/loadtest.md lists its keys.
std::string LoadJson(const LoadSubject& subject, const LoadResult& result);

}  // namespace mnemon::client
