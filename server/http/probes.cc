// SPDX-License-Identifier: MIT
#include "server/http/probes.h"

#include <string_view>

#include "base/strings.h"

namespace mnemon {
namespace {

constexpr char kExposition[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kReadyz = "/readyz";

HttpResponse NotFound() {
  return {.code = 404,
          .body =
              "not found: there is /metrics, /healthz, /readyz and "
              "/readyz/MODEL\n"};
}

// Of a function of ProbeSources.
std::string Why(const std::function<std::string()>& source) {
  return source ? source() : "";
}

// `why`: the reason of the process.
std::string WhyNotReady(const ModelStats& model, const std::string& why) {
  return model.ready ? why : std::string(model.unready);
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
    const std::string why = WhyNotReady(model, process);
    if (why.empty()) return {.body = "ready\n"};
    return {.code = 503, .body = why + "\n"};
  }
  return {.code = 404, .body = "no model of this name is loaded\n"};
}

}  // namespace

bool IsProbe(std::string_view path) {
  const bool readyz = path.substr(0, kReadyz.size()) == kReadyz &&
                      (path.size() == kReadyz.size() || path[kReadyz.size()] == '/');
  return path == "/metrics" || path == "/healthz" || readyz;
}

HttpResponse AnswerProbe(const ProbeSources& sources, const HttpRequest& request) {
  const std::string_view path = request.path;
  if (!IsProbe(path)) return NotFound();
  if (request.method != "GET" && request.method != "HEAD") {
    return {
        .code = 405, .body = "GET or HEAD only\n", .headers = {{"Allow", "GET, HEAD"}}};
  }
  if (path == "/healthz") {
    const std::string why = Why(sources.dead);
    if (why.empty()) return {.body = "ok\n"};
    return {.code = 503, .body = why + "\n"};
  }
  const EngineStats now = sources.stats();
  if (path == "/metrics") return {.type = kExposition, .body = sources.metrics(now)};
  const std::string process = Why(sources.unready);
  if (path == kReadyz) return ReadinessOfAll(now, process);
  return ReadinessOf(path.substr(kReadyz.size() + 1), now, process);
}

}  // namespace mnemon
