// SPDX-License-Identifier: MIT
#include "bench/figures/report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using Json = nlohmann::ordered_json;

Json RecordToJson(const Record& record) {
  Json json = Json::object();
  for (const auto& [key, value] : record.values()) {
    Json* at = &json;
    size_t from = 0;
    for (size_t dot; (dot = key.find('.', from)) != key.npos; from = dot + 1) {
      at = &(*at)[key.substr(from, dot - from)];
    }
    Json& place = (*at)[key.substr(from)];
    std::visit([&](const auto& plain) { place = plain; }, value);
  }
  return json;
}

std::string ValueText(const ReportValue& value, int decimals) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "yes" : "no";
  if (const auto* count = std::get_if<int64_t>(&value)) return std::to_string(*count);
  const double number = std::get<double>(value);
  return std::isfinite(number) ? absl::StrFormat("%.*f", decimals, number) : "-";
}

}  // namespace

void Record::Set(std::string key, ReportValue value) {
  values_.emplace_back(std::move(key), std::move(value));
}

std::string Record::Text(const std::string& key, int decimals) const {
  for (const auto& [name, value] : values_) {
    if (name == key) return ValueText(value, decimals);
  }
  return "-";
}

std::string ToJson(const Report& report) {
  Json json = RecordToJson(report.run);
  json["results"] = Json::array();
  for (const Record& result : report.results) {
    json["results"].push_back(RecordToJson(result));
  }
  return json.dump(2) + "\n";
}

std::string ToTable(const Report& report, std::span<const Column> columns) {
  std::vector<std::vector<std::string>> rows(1);
  for (const Column& column : columns) rows[0].push_back(column.title);
  for (const Record& result : report.results) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const Column& column : columns) {
      row.push_back(result.Text(column.key, column.decimals));
    }
  }
  std::vector<size_t> widths(columns.size());
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      out += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    out += "\n";
  }
  out += "\n";
  for (const auto& [key, value] : report.run.values()) {
    out += key + " " + ValueText(value, 2) + "\n";
  }
  return out;
}

}  // namespace mnemon
