// SPDX-License-Identifier: MIT
#include "server/http/probes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

class Probes : public ::testing::Test {
 protected:
  HttpResponse Get(const std::string& path, const std::string& method = "GET") const {
    return AnswerProbe(sources_, {.method = method, .path = path});
  }

  void SetUnready(const std::string& model, std::string_view why) {
    for (ModelStats& stats : stats_.models) {
      if (stats.model != model) continue;
      stats.ready = why.empty();
      stats.unready = why;
    }
  }

  std::string unready_, dead_;
  EngineStats stats_{.models = {{.model = "a"}, {.model = "b"}}};
  const ProbeSources sources_{
      .stats = [this] { return stats_; },
      .metrics =
          [](const EngineStats& now) { return now.models.at(0).model + "_total 1\n"; },
      .unready = [this] { return unready_; },
      .dead = [this] { return dead_; }};
};

TEST_F(Probes, Metrics) {
  const HttpResponse response = Get("/metrics");
  EXPECT_EQ(response.code, 200);
  EXPECT_EQ(response.body, "a_total 1\n");
  EXPECT_THAT(response.type, HasSubstr("text/plain; version=0.0.4"));
}

TEST_F(Probes, AModelThatTakesNoWorkIsNamed) {
  EXPECT_EQ(Get("/readyz").code, 200);
  EXPECT_EQ(Get("/readyz").body, "ready\n");
  EXPECT_EQ(Get("/readyz/a").code, 200);
  SetUnready("a", "queue full");
  EXPECT_EQ(Get("/readyz").code, 200);
  EXPECT_EQ(Get("/readyz").body, "ready\na: queue full\n");
  EXPECT_EQ(Get("/readyz/a").code, 503);
  EXPECT_EQ(Get("/readyz/a").body, "queue full\n");
  EXPECT_EQ(Get("/readyz/b").code, 200);
}

TEST_F(Probes, NoReadyModelIsUnready) {
  SetUnready("a", "queue full");
  SetUnready("b", "no progress");
  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/readyz").body, "a: queue full\nb: no progress\n");
  EXPECT_EQ(Get("/healthz").code, 200);
  EXPECT_EQ(Get("/healthz").body, "ok\n");
}

TEST_F(Probes, AReasonOfTheProcessIsOneOfEachModel) {
  SetUnready("b", "no progress");
  unready_ = "log blocked";
  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/readyz").body, "a: log blocked\nb: no progress\n");
  EXPECT_EQ(Get("/readyz/a").code, 503);
  EXPECT_EQ(Get("/readyz/a").body, "log blocked\n");
  EXPECT_EQ(Get("/healthz").code, 200);
  unready_ = "";
  EXPECT_EQ(Get("/readyz").body, "ready\nb: no progress\n");
}

TEST_F(Probes, AProcessThatIsNotAliveSaysWhy) {
  dead_ = "no connection is accepted";
  EXPECT_EQ(Get("/healthz").code, 503);
  EXPECT_EQ(Get("/healthz").body, "no connection is accepted\n");
  EXPECT_EQ(Get("/readyz/a").code, 200);
}

TEST_F(Probes, NothingElseIsThere) {
  for (const char* path :
       {"/", "", "/metrics/", "/metricsx", "/readyzx", "/readyz/", "/readyz/c",
        "/readyz/a/b", "/etc/passwd", "/../../etc/passwd", "/%2e%2e/etc/passwd"}) {
    EXPECT_EQ(Get(path).code, 404) << path;
  }
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    EXPECT_EQ(Get("/metrics", method).code, 405) << method;
    const HttpResponse refused = Get("/readyz/a", method);
    ASSERT_EQ(refused.headers.size(), 1u) << method;
    EXPECT_EQ(refused.headers[0].value, "GET, HEAD") << method;
  }
}

}  // namespace
}  // namespace mnemon
