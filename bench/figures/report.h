// SPDX-License-Identifier: MIT
// Output of a measurement: one JSON document, or a table for people.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace mnemon {

using ReportValue = std::variant<bool, int64_t, double, std::string>;

// Named values in the order in which they were set. A dot opens an object:
// "step_us.median".
class Record {
 public:
  // REQUIRES: `key` is new, and no part of it is a value already.
  void Set(std::string key, ReportValue value);
  // Text of a value, floating values with `decimals` places; "-" if there is none.
  std::string Text(const std::string& key, int decimals) const;

  const std::vector<std::pair<std::string, ReportValue>>& values() const {
    return values_;
  }

 private:
  std::vector<std::pair<std::string, ReportValue>> values_;
};

struct Report {
  Record run;                   // values common to all results
  std::vector<Record> results;  // "results" in JSON
};

// A column of the table.
struct Column {
  std::string title;
  std::string key;
  int decimals = 0;
};

// Numbers that are not finite become null.
std::string ToJson(const Report& report);
// Formats a table with columns as wide as their widest cell, then `run`, one value per
// line.
std::string ToTable(const Report& report, std::span<const Column> columns);

}  // namespace mnemon
