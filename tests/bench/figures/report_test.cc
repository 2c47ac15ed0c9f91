// SPDX-License-Identifier: MIT
#include "bench/figures/report.h"

#include <cmath>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

Report Example() {
  Report report;
  report.run.Set("command", std::string("step"));
  report.run.Set("rate.before", 1.5);
  report.run.Set("rate.after", NAN);
  Record& result = report.results.emplace_back();
  result.Set("name", std::string("a \"b\""));
  result.Set("count", int64_t{7});
  result.Set("us.median", 12.345);
  result.Set("steady", false);
  return report;
}

TEST(Report, Json) {
  const nlohmann::json json = nlohmann::json::parse(ToJson(Example()));
  EXPECT_EQ(json["command"], "step");
  EXPECT_EQ(json["rate"]["before"], 1.5);
  EXPECT_TRUE(json["rate"]["after"].is_null());
  ASSERT_EQ(json["results"].size(), 1u);
  EXPECT_EQ(json["results"][0]["name"], "a \"b\"");
  EXPECT_EQ(json["results"][0]["count"], 7);
  EXPECT_EQ(json["results"][0]["us"]["median"], 12.345);
  EXPECT_EQ(json["results"][0]["steady"], false);
}

TEST(Report, Table) {
  const Column columns[] = {
      {"name", "name"}, {"us", "us.median", 1}, {"steady", "steady"}, {"no", "absent"}};
  EXPECT_EQ(ToTable(Example(), columns),
            "name     us  steady  no\n"
            "a \"b\"  12.3      no   -\n"
            "\n"
            "command step\n"
            "rate.before 1.50\n"
            "rate.after -\n");
}

}  // namespace
}  // namespace mnemon
