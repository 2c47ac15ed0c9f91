// SPDX-License-Identifier: MIT
// Result of a load test as a table for people and as JSON for programs.
#pragma once

#include <string>

#include "client/client.h"
#include "client/load/load.h"

namespace mnemon::client {

// The measured server and model.
struct LoadSubject {
  std::string server;
  ModelSummary model;
  LoadOptions options;
};

// Lines of text; names from the server are escaped for a terminal.
std::string LoadTable(const LoadSubject& subject, const LoadResult& result);
// One object, on one line. docs/loadtest.md lists its keys.
std::string LoadJson(const LoadSubject& subject, const LoadResult& result);

}  // namespace mnemon::client
