// SPDX-License-Identifier: MIT
// Tables of text for people.
#pragma once

#include <string>
#include <vector>

namespace mnemon::client {

using TableRow = std::vector<std::string>;

// One line per row, columns as wide as their widest cell and two spaces apart. Control
// characters are escaped, since cells come from a server. REQUIRES: a first row, and no
// row longer than it.
std::string Table(const std::vector<TableRow>& rows);

}  // namespace mnemon::client
