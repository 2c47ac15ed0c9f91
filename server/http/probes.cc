// SPDX-License-Identifier: MIT
#include "server/http/probes.h"

#include "base/strings.h"

namespace mnemon {
namespace {

constexpr char kExposition[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kReadyz = "/readyz";

std::string WhyNotReady(const ModelStats& model, const std::string& process) {
  return model.ready ? process : std::string(model.unready);
}

HttpResponse Healthy(const std::string& why, const char* healthy) {
  if (why.empty()) return {.body = healthy};
  return {.code = 503, .body = why + "\n"};
}

// Ready while any model is; every model that is not is named.
HttpResponse ReadinessOfAll(const EngineStats& now, const std::string& process) {
  bool any = false;
  std::string unready;
  for (const ModelStats& model : now.models) {
    const std::string why = WhyNotReady(model, process);
    any = any || why.empty();
    if (!why.empty()) unready += StrCat(model.model, ": ", why, "\n");
  }
  if (any) return {.body = StrCat("ready\n", unready)};
  return {.code = 503, .body = unready};
}

HttpResponse ReadinessOf(std::string_view name, const EngineStats& now,
                         const std::string& process) {
  for (const ModelStats& model : now.models) {
    if (model.model != name) continue;
    return Healthy(WhyNotReady(model, process), "ready\n");
  }
  return {.code = 404, .body = "no model of this name is loaded\n"};
}

}  // namespace

bool IsProbe(std::string_view path) {
  return path == "/metrics" || path == "/healthz" || path == kReadyz ||
         path.starts_with("/readyz/");
}

HttpResponse AnswerProbe(const ProbeSources& sources, const HttpRequest& request) {
  const std::string_view path = request.path;
  if (!IsProbe(path)) {
    return {.code = 404,
            .body =
                "not found: there is /metrics, /healthz, /readyz and "
                "/readyz/MODEL\n"};
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return {
        .code = 405, .body = "GET or HEAD only\n", .headers = {{"Allow", "GET, HEAD"}}};
  }
  if (path == "/healthz") return Healthy(sources.dead ? sources.dead() : "", "ok\n");
  const EngineStats now = sources.stats();
  if (path == "/metrics") return {.type = kExposition, .body = sources.metrics(now)};
  const std::string process = sources.unready ? sources.unready() : "";
  if (path == kReadyz) return ReadinessOfAll(now, process);
  return ReadinessOf(path.substr(kReadyz.size() + 1), now, process);
}

}  // namespace mnemon
