// SPDX-License-Identifier: MIT
#include "server/http/metrics.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/error.h"
#include "base/log.h"
#include "server/http/histogram.h"
#include "server/http/readings.h"

namespace mnemon {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Labels;

constexpr const char* kFailures[] = {"overloaded", "validation", "deadline",
                                     "cancelled",  "draining",   "data_loss",
                                     "internal"};
// Stands for requests that name no loaded model; no model can have this name.
constexpr char kNoModel[] = "(none)";

// Upper bounds of the histograms' buckets.
namespace buckets {

using Buckets = std::vector<double>;

// Seconds.
const Buckets kFirstToken = {.0005, .001, .002, .005, .01, .02, .04, .06,
                             .08,   .1,   .25,  .5,   .75, 1,   2.5, 5,
                             7.5,   10,   20,   40,   80,  160, 640, 2560};
const Buckets kStep = {.0001, .0002, .0005, .001, .002, .005, .01, .025, .05,
                       .075,  .1,    .15,   .2,   .3,   .4,   .5,  .75,  1,
                       2.5,   5,     7.5,   10,   20,   40,   80};
const Buckets kRequest = {.001, .005, .01, .05, .1,  .3,  .5,   .8,  1,
                          1.5,  2,    2.5, 5,   10,  15,  20,   30,  40,
                          50,   60,   120, 240, 480, 960, 1920, 7680};
const Buckets kRestore = {1e-5, 1e-4, 5e-4, .001, .005, .01, .05, .1, .5, 1, 5};
const Buckets kStall = {.001, .01, .1, 1, 5, 10, 30, 60, 300};
// gRFC A66.
const Buckets kRpc = {0,    1e-5, 5e-5, 1e-4, 3e-4, 6e-4, 8e-4, .001, .002, .003, .004,
                      .005, .006, .008, .01,  .013, .016, .02,  .025, .03,  .04,  .05,
                      .065, .08,  .1,   .13,  .16,  .2,   .25,  .3,   .4,   .5,   .65,
                      .8,   1,    2,    5,    10,   20,   50,   100};

// Sessions.
const Buckets kBatch = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

// Bytes, gRFC A66.
const Buckets kMessage = {
    0,          1024,        2048,         4096,        16384,
    65536,      262144,      1048576.0,    4194304.0,   16777216.0,
    67108864.0, 268435456.0, 1073741824.0, 4294967296.0};

}  // namespace buckets

std::string FailureOf(const absl::Status& status) {
  static constexpr std::pair<absl::StatusCode, const char*> kNames[] = {
      {absl::StatusCode::kResourceExhausted, "overloaded"},
      {absl::StatusCode::kDeadlineExceeded, "deadline"},
      {absl::StatusCode::kCancelled, "cancelled"},
      {absl::StatusCode::kUnavailable, "draining"},
      {absl::StatusCode::kDataLoss, "data_loss"},
      {absl::StatusCode::kInternal, "internal"},
      {absl::StatusCode::kUnknown, "internal"}};
  for (const auto& [code, name] : kNames) {
    if (status.code() == code) return name;
  }
  // The caller deleted the session or stopped reading: neither request nor server is at
  // fault.
  const std::string reason = GetErrorDetail(status).value_or(ErrorDetail{}).reason;
  const bool caller = absl::IsAborted(status) &&
                      (reason == "SESSION_DELETED" || reason == "CALLER_IDLE");
  return caller ? "cancelled" : "validation";
}

// In the order of FinishReason.
constexpr const char* kFinishes[] = {"max_tokens",    "stop_token", "stop_string",
                                     "context_limit", "time_limit", "stop_token"};

// In the order of SessionEvent.
constexpr const char* kSessionEvents[] = {"create",     "fork",   "rewind",
                                          "checkpoint", "export", "import",
                                          "expire",     "verify", "verify_fail"};

// In the order of SessionTier.
constexpr const char* kTierOfState[] = {"device", "host", "disk"};

Labels FromTier(SessionTier tier) {
  return {{"from_tier", kTierOfState[static_cast<size_t>(tier)]}};
}

enum ModelHistogram {
  kFirstToken,
  kNextToken,
  kQueue,
  kPrefill,
  kDecode,
  kTotal,
  kBatch,
  kStep
};

struct HistogramForm {
  const char* name;
  const char* help;
  const buckets::Buckets& bounds;
};

// In the order of ModelHistogram.
constexpr HistogramForm kModelHistograms[] = {
    {"mnemon_time_to_first_token_seconds",
     "Time from the acceptance of a Generate call to its first token.",
     buckets::kFirstToken},
    {"mnemon_inter_token_latency_seconds",
     "Time between two tokens of a Generate call.", buckets::kStep},
    {"mnemon_request_queue_time_seconds",
     "Time from the acceptance of a Generate call to its start.", buckets::kRequest},
    {"mnemon_request_prefill_time_seconds",
     "Time from the start of a Generate call to its first token.", buckets::kRequest},
    {"mnemon_request_decode_time_seconds",
     "Time from the first token of a Generate call to its last.", buckets::kRequest},
    {"mnemon_e2e_request_latency_seconds",
     "Time from the acceptance of a Generate call to its end, however it ended.",
     buckets::kRequest},
    {"mnemon_batch_size",
     "Calls of Generate and Score that one step of a model computed together.",
     buckets::kBatch},
    {"mnemon_step_duration_seconds", "Time that one step of a model took.",
     buckets::kStep}};

// The series of one model, made once.
struct ModelSeries {
  Counter* prompt_tokens;
  Counter* generation_tokens;
  Counter* saved_tokens;
  std::vector<Counter*> success;            // by FinishReason
  std::map<std::string, Counter*> failure;  // by reason
  std::vector<Histogram*> histograms;       // by ModelHistogram
  void Observe(ModelHistogram which, double value) const {
    histograms[which]->Observe(value);
  }
};

class PrometheusMetrics final : public Metrics {
 public:
  PrometheusMetrics(const std::vector<ModelFacts>& models, const BuildFacts& build) {
    for (const auto& [name, help, bounds] : kModelHistograms) {
      histograms_.emplace_back(name, help, bounds);
    }
    for (const ModelFacts& model : models) series_.push_back(Make(model.name));
    for (const char* event : kSessionEvents) {
      session_series_.push_back(&session_events_.Add({{"event", event}}));
    }
    restores_.Add(FromTier(SessionTier::kDisk), buckets::kRestore);
    AddGauge("mnemon_build_info", "Version of the running server; the value is 1.",
             {{"version", build.version},
              {"commit", build.commit},
              {"libraries", build.libraries}});
    for (const ModelFacts& model : models) {
      AddGauge("mnemon_model_info", "A loaded model; the value is 1.",
               {{"model", model.name},
                {"fingerprint", model.model_id},
                {"memory_kind", model.architecture}});
    }
  }

  void OnStep(size_t model, int64_t sessions, Seconds took) override {
    const ModelSeries& series = series_.at(model);
    series.Observe(kBatch, static_cast<double>(sessions));
    series.Observe(kStep, took.count());
  }

  void OnRefused(std::optional<size_t> model, const absl::Status& status) override {
    const std::string reason = FailureOf(status);
    if (model) {
      series_.at(*model).failure.at(reason)->Increment();
    } else {
      failure_.Add({{"model", kNoModel}, {"reason", reason}}).Increment();
    }
  }

  void OnAdmitted(size_t model, const StartFacts& facts, Seconds queued) override {
    const ModelSeries& series = series_.at(model);
    series.Observe(kQueue, queued.count());
    series.prompt_tokens->Increment(static_cast<double>(facts.prompt_tokens));
    series.saved_tokens->Increment(static_cast<double>(facts.resumed_tokens));
  }

  void OnFirstToken(size_t model, Seconds since_taken,
                    Seconds since_admitted) override {
    const ModelSeries& series = series_.at(model);
    series.Observe(kFirstToken, since_taken.count());
    series.Observe(kPrefill, since_admitted.count());
    series.generation_tokens->Increment();
  }

  void OnNextToken(size_t model, Seconds since_last) override {
    const ModelSeries& series = series_.at(model);
    series.Observe(kNextToken, since_last.count());
    series.generation_tokens->Increment();
  }

  void OnStall(size_t, Seconds stalled) override { stall_.Observe(stalled.count()); }

  // Without memory, an event is missing in the metrics alone.
  void OnEnded(size_t model, const RequestEnd& end) override try {
    const ModelSeries& series = series_.at(model);
    series.Observe(kTotal, end.total.count());
    if (end.decode) series.Observe(kDecode, end.decode->count());
    if (end.status.ok()) {
      const FinishReason reason = end.finish ? end.finish->reason : FinishReason{};
      series.success.at(static_cast<size_t>(reason))->Increment();
    } else {
      series.failure.at(FailureOf(end.status))->Increment();
    }
  } catch (const std::bad_alloc&) {
  }

  void OnResumed(size_t) override { resumes_.Increment(); }

  void OnSessionEvent(SessionEvent event) override {
    session_series_.at(static_cast<size_t>(event))->Increment();
  }

  void OnRestored(SessionTier from, Seconds took) override try {
    restored_.Increment();
    restores_.Add(FromTier(from), buckets::kRestore).Observe(took.count());
  } catch (const std::bad_alloc&) {
  }

  void OnCallStarted(const std::string& method) override try {
    rpc_started_.Add({{"grpc_method", method}}).Increment();
  } catch (const std::bad_alloc&) {
  }

  void OnCallEnded(const AccessRecord& call) override try {
    const Labels labels = {{"grpc_method", call.method},
                           {"grpc_status", StatusName(call)}};
    rpc_duration_.Add(labels, buckets::kRpc).Observe(call.total.count());
    rpc_sent_.Add(labels, buckets::kMessage)
        .Observe(static_cast<double>(call.sent_bytes));
    rpc_received_.Add(labels, buckets::kMessage)
        .Observe(static_cast<double>(call.received_bytes));
  } catch (const std::bad_alloc&) {
  }

  std::string Text(const EngineStats& now, const ConnectionCounts& connections,
                   std::string_view process) const override {
    std::vector<prometheus::MetricFamily> families =
        ReadingsOf(now, log_counts(), process);
    const auto add = [&](std::vector<prometheus::MetricFamily> more) {
      std::move(more.begin(), more.end(), std::back_inserter(families));
    };
    if (now.store) add(ReadingsOf(*now.store));
    add(ReadingsOf(connections));
    add(ProcessReadings());
    add(registry_.Collect());
    for (const HistogramFamily& family : histograms_) add(family.Collect());
    add(stalls_.Collect());
    return prometheus::TextSerializer().Serialize(families);
  }

 private:
  void AddGauge(const std::string& name, const std::string& help,
                const Labels& labels) {
    prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels).Set(
        1);
  }

  ModelSeries Make(const std::string& model) {
    const Labels labels = {{"model", model}};
    ModelSeries series = {.prompt_tokens = &prompt_tokens_.Add(labels),
                          .generation_tokens = &generation_tokens_.Add(labels),
                          .saved_tokens = &saved_tokens_.Add(labels)};
    for (HistogramFamily& family : histograms_) {
      series.histograms.push_back(&family.Add(labels));
    }
    for (const char* reason : kFinishes) {
      series.success.push_back(
          &success_.Add({{"model", model}, {"finished_reason", reason}}));
    }
    for (const char* reason : kFailures) {
      series.failure[reason] = &failure_.Add({{"model", model}, {"reason", reason}});
    }
    return series;
  }

  Family<Counter>& NewCounter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  }
  Family<prometheus::Histogram>& NewHistogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
  }

  prometheus::Registry registry_;  // owns the families that it made
  Family<Counter>& prompt_tokens_ = NewCounter(
      "mnemon_prompt_tokens_total", "Prompt tokens of Generate calls that started.");
  Family<Counter>& generation_tokens_ = NewCounter(
      "mnemon_generation_tokens_total", "Tokens generated by Generate calls.");
  Family<Counter>& saved_tokens_ = NewCounter(
      "mnemon_prefill_tokens_saved_total",
      "Tokens of sessions' histories that Generate calls did not compute again, "
      "because the session's state had computed them.");
  Family<Counter>& success_ =
      NewCounter("mnemon_request_success_total",
                 "Generate calls that ended OK, by the reason that ended them.");
  Family<Counter>& failure_ =
      NewCounter("mnemon_request_failure_total",
                 "Generate calls that were refused or failed, by kind of error.");
  Family<Counter>& session_events_ = NewCounter(
      "mnemon_session_events_total",
      "What happened to named sessions. restore: a state came back from the store; "
      "verify: found in order, verify_fail: not.");
  Counter& restored_ = session_events_.Add({{"event", "restore"}});
  Counter& resumes_ =
      NewCounter("mnemon_stream_resume_total",
                 "Generate calls that went on with the stream of an earlier call, or "
                 "repeated it.")
          .Add({});
  Family<prometheus::Histogram>& restores_ = NewHistogram(
      "mnemon_state_restore_duration_seconds",
      "Time in which the state of a session or checkpoint came back into memory, the "
      "wait for its turn included.");
  HistogramFamily stalls_{
      "mnemon_stream_stall_seconds",
      "Time that a full stream waited for its reader, recorded when the wait ends.",
      buckets::kStall};
  Histogram& stall_ = stalls_.Add({});
  Family<Counter>& rpc_started_ =
      NewCounter("grpc_server_call_started_total", "gRPC calls that arrived.");
  Family<prometheus::Histogram>& rpc_duration_ =
      NewHistogram("grpc_server_call_duration_seconds", "Duration of gRPC calls.");
  Family<prometheus::Histogram>& rpc_sent_ = NewHistogram(
      "grpc_server_call_sent_bytes", "Bytes of all messages sent in a gRPC call.");
  Family<prometheus::Histogram>& rpc_received_ =
      NewHistogram("grpc_server_call_received_bytes",
                   "Bytes of all messages received in a gRPC call.");
  // Constant after construction.
  std::deque<HistogramFamily> histograms_;  // by ModelHistogram
  std::vector<ModelSeries> series_;         // per model
  std::vector<Counter*> session_series_;    // per SessionEvent
};

}  // namespace

std::shared_ptr<Metrics> Metrics::Create(const std::vector<ModelFacts>& models,
                                         const BuildFacts& build) {
  return std::make_shared<PrometheusMetrics>(models, build);
}

}  // namespace mnemon
