// SPDX-License-Identifier: MIT
#include "bench/kernels/bracket.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

TEST(Bracketed, SteadyWithinATenth) {
  EXPECT_TRUE((Bracketed{.before = 100, .after = 91}.steady()));
  EXPECT_TRUE((Bracketed{.before = 91, .after = 100}.steady()));
  EXPECT_FALSE((Bracketed{.before = 100, .after = 89}.steady()));
  EXPECT_FALSE((Bracketed{.before = 89, .after = 100}.steady()));
  EXPECT_DOUBLE_EQ((Bracketed{.before = 89, .after = 100}.best()), 100);
}

TEST(Bracket, DescribesWhatItMeasured) {
  Bracket bracket(1, {1 << 16, 1 << 20});
  bracket.Close();
  Report report;
  bracket.Describe(report.run);
  bracket.Describe(1, report.results.emplace_back());
  const nlohmann::json json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["threads"], 1);
  for (const char* when : {"before", "after"}) {
    EXPECT_GT(json["fma_gflops"][when].get<double>(), 0) << when;
    EXPECT_GT(json["int8_gops"][when].get<double>(), 0) << when;
    EXPECT_GT(json["memory_gbytes"][when].get<double>(), 0) << when;
    EXPECT_GT(json["results"][0]["read_gbytes"][when].get<double>(), 0) << when;
  }
  EXPECT_DOUBLE_EQ(bracket.ceiling(1).bytes_per_second / 1e9,
                   std::max(json["results"][0]["read_gbytes"]["before"].get<double>(),
                            json["results"][0]["read_gbytes"]["after"].get<double>()));
}

}  // namespace
}  // namespace mnemon
