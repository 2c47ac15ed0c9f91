// SPDX-License-Identifier: MIT
#include "client/terminal/table.h"

#include <algorithm>

#include "base/log.h"

namespace mnemon::client {

std::string Table(const std::vector<TableRow>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  std::vector<TableRow> shown = rows;
  for (TableRow& row : shown) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = EscapeControls(row[i]);
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const TableRow& row : shown) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] + 2 - row[i].size(), ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace mnemon::client
