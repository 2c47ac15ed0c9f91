// SPDX-License-Identifier: MIT
#include "bench/serving/watch.h"

#include <algorithm>
#include <chrono>

#include "bench/serving/connection.h"
#include "bench/serving/http_get.h"

namespace mnemon::serving {
namespace {

constexpr std::chrono::milliseconds kSample{50};
constexpr int kSamplesPerProbe = 5;
constexpr double kReach = 2;  // seconds
constexpr double kProbe = 5;  // seconds

}  // namespace

bool Reached(int port, double seconds) {
  const Connection connection(port, {});
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds)));
  grpc::health::v1::HealthCheckResponse answer;
  return connection.health->Check(&context, {}, &answer).ok() &&
         answer.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

Watch::Watch(const TestServer& server, const BarResults& results)
    : server_(server),
      reach_(results.Patience(kReach * results.slack())),
      probe_(static_cast<int>(results.Patience(kProbe * results.slack()))),
      thread_([this] { Run(); }) {}

Watch::~Watch() { Stop(); }

Watched Watch::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
  return watched_;
}

bool Watch::Pause() {
  std::unique_lock lock(mutex_);
  return !stopped_.wait_for(lock, kSample, [&] { return stop_; });
}

void Watch::Run() {
  int samples = 0;
  do {
    watched_.peak_megabytes =
        std::max(watched_.peak_megabytes, UseOf(server_.pid()).megabytes);
    if (++samples % kSamplesPerProbe == 0) Probe();
  } while (Pause());
}

void Watch::Probe() {
  ++watched_.looks;
  if (HttpGet(server_.http_port(), "/healthz", probe_).code != 200)
    ++watched_.not_alive;
  const auto begin = std::chrono::steady_clock::now();
  const bool reached = Reached(server_.port(), reach_);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (reached) {
    watched_.slowest = std::max(watched_.slowest, took.count());
  } else {
    ++watched_.not_reached;
  }
  const int ready = HttpGet(server_.http_port(), "/readyz", probe_).code;
  if (ready == 503) ++watched_.not_ready;
  if (ready != 503 && ready != 200) ++watched_.ready_unanswered;
  in_a_row_ = ready == 200 && !reached ? in_a_row_ + 1 : 0;
  if (in_a_row_ >= 2) ++watched_.wrongly_ready;
}

}  // namespace mnemon::serving
