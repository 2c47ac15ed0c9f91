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
    return handler_({.method = method, .path = path});
  }

  EngineStats stats_{.models = {{.model = "a"}, {.model = "b"}}};
  const HttpHandler handler_ =
      MakeProbes({.stats = [this] { return stats_; },
                  .metrics =
                      [](const EngineStats& now) {
                        return now.models.at(0).model + "_total 1\n";
                      }});
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
  stats_.models[0].ready = false;
  EXPECT_EQ(Get("/readyz").code, 200);
  EXPECT_EQ(Get("/readyz").body, "ready\na: queue full\n");
  EXPECT_EQ(Get("/readyz/a").code, 503);
  EXPECT_EQ(Get("/readyz/a").body, "queue full\n");
  EXPECT_EQ(Get("/readyz/b").code, 200);
}

TEST_F(Probes, NoReadyModelIsUnready) {
  for (ModelStats& model : stats_.models) model.ready = false;
  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/readyz").body, "a: queue full\nb: queue full\n");
  stats_.draining = true;
  EXPECT_EQ(Get("/readyz").body, "a: draining\nb: draining\n");
  EXPECT_EQ(Get("/healthz").code, 200);
  EXPECT_EQ(Get("/healthz").body, "ok\n");
}

TEST_F(Probes, NothingElseIsThere) {
  for (const char* path :
       {"/", "", "/metrics/", "/metricsx", "/readyzx", "/readyz/", "/readyz/c",
        "/readyz/a/b", "/etc/passwd", "/../../etc/passwd", "/%2e%2e/etc/passwd"}) {
    EXPECT_EQ(Get(path).code, 404) << path;
  }
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    EXPECT_EQ(Get("/metrics", method).code, 405) << method;
    EXPECT_EQ(Get("/readyz/a", method).allow, "GET, HEAD") << method;
  }
}

}  // namespace
}  // namespace mnemon
