// SPDX-License-Identifier: MIT
#include "server/http/metrics.h"

#include <map>
#include <sstream>

#include "base/error.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<Metrics> Make() {
  return Metrics::Create({{.name = "a", .model_id = "f1", .architecture = "feedback"},
                          {.name = "b", .model_id = "f2", .architecture = "causal"}},
                         {.version = "1.2", .commit = "c0ffee", .libraries = "x 1"});
}

// "name{labels}" to value.
std::map<std::string, double> Samples(const std::string& text) {
  std::map<std::string, double> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    EXPECT_TRUE(
        samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1)))
            .second)
        << line;
  }
  return samples;
}

// The upper bounds of one histogram's buckets, as written.
std::vector<std::string> Bounds(const std::string& text, const std::string& series) {
  std::vector<std::string> bounds;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("le=\"");
    if (line.rfind(series, 0) != 0 || at == std::string::npos) continue;
    bounds.push_back(line.substr(at + 4, line.find('"', at + 4) - at - 4));
  }
  return bounds;
}

std::vector<double> Numbers(const std::vector<std::string>& texts) {
  std::vector<double> numbers;
  for (const std::string& text : texts) {
    if (text != "+Inf") numbers.push_back(std::stod(text));
  }
  return numbers;
}

TEST(Metrics, EverySeriesOfAModelIsThereFromTheStart) {
  const std::string text = Make()->Text({}, {}, "");
  auto samples = Samples(text);
  for (const char* name :
       {"mnemon_prompt_tokens_total", "mnemon_generation_tokens_total",
        "mnemon_prefill_tokens_saved_total", "mnemon_time_to_first_token_seconds_count",
        "mnemon_inter_token_latency_seconds_count",
        "mnemon_request_queue_time_seconds_count",
        "mnemon_request_prefill_time_seconds_count",
        "mnemon_request_decode_time_seconds_count",
        "mnemon_e2e_request_latency_seconds_count", "mnemon_batch_size_count",
        "mnemon_step_duration_seconds_count"}) {
    for (const char* model : {"a", "b"}) {
      EXPECT_TRUE(samples.count(StrCat(name, "{model=\"", model, "\"}"))) << name;
    }
  }
  for (const char* reason : {"overloaded", "validation", "deadline", "cancelled",
                             "draining", "data_loss", "internal"}) {
    EXPECT_TRUE(samples.count(
        StrCat("mnemon_request_failure_total{model=\"a\",reason=\"", reason, "\"}")));
  }
  for (const char* reason :
       {"max_tokens", "stop_token", "stop_string", "context_limit", "time_limit"}) {
    EXPECT_TRUE(samples.count(StrCat("mnemon_request_success_total{finished_reason=\"",
                                     reason, "\",model=\"a\"}")))
        << text;
  }
  EXPECT_TRUE(samples.count("mnemon_stream_stall_seconds_count"));
  EXPECT_EQ(samples["mnemon_build_info{commit=\"c0ffee\",libraries=\"x 1\",version="
                    "\"1.2\"}"],
            1);
  EXPECT_EQ(samples["mnemon_model_info{fingerprint=\"f1\",memory_kind=\"feedback\","
                    "model=\"a\"}"],
            1);
}

TEST(Metrics, TypesAndHelp) {
  const std::string text = Make()->Text({}, {}, "");
  const std::pair<const char*, const char*> types[] = {
      {"mnemon_requests_running", "gauge"},
      {"mnemon_requests_waiting", "gauge"},
      {"mnemon_requests_stalled", "gauge"},
      {"mnemon_queue_limit", "gauge"},
      {"mnemon_model_ready", "gauge"},
      {"mnemon_sessions", "gauge"},
      {"mnemon_session_state_bytes", "gauge"},
      {"mnemon_session_state_capacity_bytes", "gauge"},
      {"mnemon_state_cache_usage_ratio", "gauge"},
      {"mnemon_preemptions_total", "counter"},
      {"mnemon_memory_bytes", "gauge"},
      {"mnemon_memory_limit_bytes", "gauge"},
      {"process_resident_memory_bytes", "gauge"},
      {"process_cpu_seconds_total", "counter"},
      {"mnemon_build_info", "gauge"},
      {"mnemon_model_info", "gauge"},
      {"mnemon_prompt_tokens_total", "counter"},
      {"mnemon_request_failure_total", "counter"},
      {"mnemon_session_events_total", "counter"},
      {"mnemon_log_lines_total", "counter"},
      {"mnemon_time_to_first_token_seconds", "histogram"},
      {"mnemon_stream_stall_seconds", "histogram"},
  };
  for (const auto& [name, type] : types) {
    EXPECT_THAT(text, HasSubstr(StrCat("# TYPE ", name, " ", type, "\n")));
    EXPECT_THAT(text, HasSubstr(StrCat("# HELP ", name, " ")));
  }
}

TEST(Metrics, MemoryByKind) {
  EngineStats now;
  now.memory = {.weights = 1,
                .state = 2,
                .shadows = 3,
                .state_reserve = 4,
                .images = 5,
                .sessions = 6,
                .histories = 7,
                .prompts = 8,
                .queue = 9,
                .output = 10,
                .predictions = 11,
                .limit = 100,
                .sessions_limit = 30,
                .resting_limit = 40};
  auto samples = Samples(Make()->Text(now, {}, ""));
  double expected = 0;
  for (const char* kind :
       {"weights", "state", "shadows", "state_reserve", "images", "sessions",
        "histories", "prompts", "queue", "output", "predictions"}) {
    EXPECT_EQ(samples[StrCat("mnemon_memory_bytes{kind=\"", kind, "\"}")], ++expected);
  }
  EXPECT_EQ(samples["mnemon_memory_limit_bytes"], 101);
  EXPECT_EQ(samples["mnemon_memory_share_bytes{share=\"sessions\"}"], 6);
  EXPECT_EQ(samples["mnemon_memory_share_bytes{share=\"resting\"}"], 13);
  EXPECT_EQ(samples["mnemon_memory_share_limit_bytes{share=\"sessions\"}"], 30);
  EXPECT_EQ(samples["mnemon_memory_share_limit_bytes{share=\"resting\"}"], 40);
}

TEST(Metrics, Buckets) {
  const std::string text = Make()->Text({}, {}, "");
  const std::vector<double> a = {.0005, .001, .002, .005, .01, .02, .04, .06,
                                 .08,   .1,   .25,  .5,   .75, 1,   2.5, 5,
                                 7.5,   10,   20,   40,   80,  160, 640, 2560};
  const std::vector<double> b = {.0001, .0002, .0005, .001, .002, .005, .01, .025, .05,
                                 .075,  .1,    .15,   .2,   .3,   .4,   .5,  .75,  1,
                                 2.5,   5,     7.5,   10,   20,   40,   80};
  const std::vector<double> c = {.001, .005, .01, .05, .1,  .3,  .5,   .8,  1,
                                 1.5,  2,    2.5, 5,   10,  15,  20,   30,  40,
                                 50,   60,   120, 240, 480, 960, 1920, 7680};
  const std::pair<const char*, std::vector<double>> expected[] = {
      {"mnemon_time_to_first_token_seconds", a},
      {"mnemon_inter_token_latency_seconds", b},
      {"mnemon_step_duration_seconds", b},
      {"mnemon_request_queue_time_seconds", c},
      {"mnemon_request_prefill_time_seconds", c},
      {"mnemon_request_decode_time_seconds", c},
      {"mnemon_e2e_request_latency_seconds", c},
      {"mnemon_batch_size", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
  };
  for (const auto& [name, bounds] : expected) {
    const auto written = Bounds(text, StrCat(name, "_bucket{model=\"a\""));
    EXPECT_EQ(Numbers(written), bounds) << name;
    EXPECT_THAT(written, Contains("+Inf"));
  }
  EXPECT_EQ(Numbers(Bounds(text, "mnemon_stream_stall_seconds_bucket")),
            (std::vector<double>{.001, .01, .1, 1, 5, 10, 30, 60, 300}));
}

TEST(Metrics, CountsWhatItIsTold) {
  const auto metrics = Make();
  metrics->OnAdmitted(1, {.prompt_tokens = 5, .resumed_tokens = 3}, Seconds(0.02));
  metrics->OnStep(1, 3, Seconds(0.004));
  metrics->OnFirstToken(1, Seconds(0.03), Seconds(0.01));
  metrics->OnNextToken(1, Seconds(0.001));
  metrics->OnNextToken(1, Seconds(0.001));
  metrics->OnStall(1, Seconds(2));
  const FinishFacts stopped = {.reason = FinishReason::kStopToken};
  metrics->OnEnded(1, {.status = absl::OkStatus(),
                       .finish = &stopped,
                       .total = Seconds(0.5),
                       .decode = Seconds(0.25)});
  metrics->OnEnded(1, {.status = absl::CancelledError(""), .total = Seconds(1)});
  const FinishFacts at_end_token = {.reason = FinishReason::kEndToken};
  metrics->OnEnded(0, {.status = absl::OkStatus(), .finish = &at_end_token});
  const std::string text = metrics->Text({}, {}, "");
  auto samples = Samples(text);
  EXPECT_EQ(samples["mnemon_prompt_tokens_total{model=\"b\"}"], 5);
  EXPECT_EQ(samples["mnemon_prefill_tokens_saved_total{model=\"b\"}"], 3);
  EXPECT_EQ(samples["mnemon_generation_tokens_total{model=\"b\"}"], 3);
  EXPECT_EQ(samples["mnemon_batch_size_sum{model=\"b\"}"], 3);
  EXPECT_EQ(samples["mnemon_step_duration_seconds_sum{model=\"b\"}"], 0.004);
  EXPECT_EQ(samples["mnemon_time_to_first_token_seconds_sum{model=\"b\"}"], 0.03);
  EXPECT_EQ(samples["mnemon_request_prefill_time_seconds_sum{model=\"b\"}"], 0.01);
  EXPECT_EQ(samples["mnemon_request_queue_time_seconds_sum{model=\"b\"}"], 0.02);
  EXPECT_EQ(samples["mnemon_inter_token_latency_seconds_count{model=\"b\"}"], 2);
  EXPECT_EQ(samples["mnemon_request_decode_time_seconds_count{model=\"b\"}"], 1);
  EXPECT_EQ(samples["mnemon_e2e_request_latency_seconds_sum{model=\"b\"}"], 1.5);
  EXPECT_EQ(samples["mnemon_stream_stall_seconds_sum"], 2);
  EXPECT_EQ(samples["mnemon_request_success_total{finished_reason=\"stop_token\","
                    "model=\"b\"}"],
            1);
  EXPECT_EQ(samples["mnemon_request_success_total{finished_reason=\"stop_token\","
                    "model=\"a\"}"],
            1);
  EXPECT_EQ(samples["mnemon_request_failure_total{model=\"b\",reason=\"cancelled\"}"],
            1);
  EXPECT_EQ(samples["mnemon_generation_tokens_total{model=\"a\"}"], 0);
}

TEST(Metrics, EveryStatusHasAReason) {
  const auto metrics = Make();
  const std::pair<absl::Status, const char*> cases[] = {
      {absl::ResourceExhaustedError(""), "overloaded"},
      {absl::InvalidArgumentError(""), "validation"},
      {absl::NotFoundError(""), "validation"},
      {absl::FailedPreconditionError(""), "validation"},
      {absl::OutOfRangeError(""), "validation"},
      {absl::UnimplementedError(""), "validation"},
      {absl::AbortedError(""), "validation"},
      {MakeError(absl::StatusCode::kAborted, "", {.reason = "SESSION_DELETED"}),
       "cancelled"},
      {MakeError(absl::StatusCode::kAborted, "", {.reason = "CALLER_IDLE"}),
       "cancelled"},
      {absl::DeadlineExceededError(""), "deadline"},
      {absl::CancelledError(""), "cancelled"},
      {absl::UnavailableError(""), "draining"},
      {absl::DataLossError(""), "data_loss"},
      {absl::InternalError(""), "internal"},
      {absl::UnknownError(""), "internal"},
  };
  for (const auto& [status, reason] : cases) {
    const std::string series =
        StrCat("mnemon_request_failure_total{model=\"a\",reason=\"", reason, "\"}");
    const double before = Samples(metrics->Text({}, {}, ""))[series];
    metrics->OnRefused(0, status);
    EXPECT_EQ(Samples(metrics->Text({}, {}, ""))[series], before + 1) << status;
  }
  metrics->OnRefused(std::nullopt, absl::NotFoundError(""));
  EXPECT_EQ(Samples(metrics->Text(
                {}, {}, ""))["mnemon_request_failure_total{model=\"(none)\",reason="
                             "\"validation\"}"],
            1);
}

TEST(Metrics, ReadsTheEngine) {
  EngineStats now;
  now.sessions = 9;
  now.models = {{.model = "a",
                 .architecture = "feedback",
                 .running = 3,
                 .waiting = 2,
                 .max_waiting = 7,
                 .stalled = 1,
                 .ready = false,
                 .unready = "no progress",
                 .sessions = 6,
                 .sessions_queued = 1,
                 .sessions_running = 2,
                 .sessions_resting = 3,
                 .sessions_stored = 1,
                 .state_bytes = 100,
                 .running_state_bytes = 60,
                 .state_capacity_bytes = 300},
                {.model = "b",
                 .architecture = "causal",
                 .sessions = 5,
                 .sessions_queued = 1,
                 .sessions_resting = 3,
                 .state_on_host = false,
                 .state_bytes = 50,
                 .running_state_bytes = 10,
                 .state_capacity_bytes = 100}};
  auto samples = Samples(Make()->Text(now, {}, ""));
  EXPECT_EQ(samples["mnemon_requests_running{model=\"a\"}"], 3);
  EXPECT_EQ(samples["mnemon_requests_waiting{model=\"a\"}"], 2);
  EXPECT_EQ(samples["mnemon_queue_limit{model=\"a\"}"], 7);
  EXPECT_EQ(samples["mnemon_requests_stalled{model=\"a\"}"], 1);
  EXPECT_EQ(samples["mnemon_model_ready{model=\"a\"}"], 0);
  EXPECT_EQ(samples["mnemon_model_ready{model=\"b\"}"], 1);
  const auto unready = [&](const std::string& model, const std::string& reason) {
    return samples.at("mnemon_model_unready{model=\"" + model + "\",reason=\"" +
                      reason + "\"}");
  };
  EXPECT_EQ(unready("a", "no progress"), 1);
  EXPECT_EQ(unready("a", "queue full"), 0);
  EXPECT_EQ(unready("b", "no progress"), 0);
  EXPECT_EQ(unready("b", "process"), 0);
  EXPECT_EQ(samples["mnemon_requests_running{model=\"b\"}"], 0);
  const auto sessions = [&](const std::string& tier, const std::string& state) {
    return samples.at("mnemon_sessions{tier=\"" + tier + "\",state=\"" + state + "\"}");
  };
  EXPECT_EQ(sessions("device", "running"), 2);
  EXPECT_EQ(sessions("device", "idle"), 3);  // of b, whose states lie on its device
  EXPECT_EQ(sessions("device", "queued"), 0);
  EXPECT_EQ(sessions("host", "running"), 0);
  EXPECT_EQ(sessions("host", "idle"), 2 + 1);
  EXPECT_EQ(sessions("disk", "idle"), 1);
  EXPECT_EQ(sessions("host", "queued"), 1 + 1);
  const auto bytes = [&](const std::string& tier, const std::string& kind) {
    return samples.at("mnemon_session_state_bytes{tier=\"" + tier +
                      "\",memory_kind=\"" + kind + "\"}");
  };
  EXPECT_EQ(bytes("device", "feedback"), 60);
  EXPECT_EQ(bytes("host", "feedback"), 40);
  EXPECT_EQ(bytes("device", "causal"), 50);
  EXPECT_EQ(bytes("host", "causal"), 0);
  EXPECT_EQ(samples["mnemon_session_state_capacity_bytes{tier=\"host\"}"], 300);
  EXPECT_EQ(samples["mnemon_session_state_capacity_bytes{tier=\"device\"}"], 100);
  EXPECT_EQ(samples["mnemon_state_cache_usage_ratio"], 0.375);
  EXPECT_FALSE(samples.contains("mnemon_store_healthy"));
}

TEST(Metrics, ReadsTheStore) {
  EngineStats now;
  now.store = {.healthy = false,
               .journal = {.commits = 1,
                           .syncs = 2,
                           .entries = 3,
                           .tokens = 4,
                           .bytes = 5,
                           .failures = 6,
                           .commit_time = std::chrono::milliseconds(7500)},
               .snapshots = 8,
               .snapshot_bytes = 9,
               .snapshot_failures = 10,
               .damaged_snapshots = 11,
               .unloaded = 12};
  auto samples = Samples(Make()->Text(now, {}, ""));
  EXPECT_EQ(samples.at("mnemon_store_healthy"), 0);
  EXPECT_EQ(samples["mnemon_journal_commits_total"], 1);
  EXPECT_EQ(samples["mnemon_journal_syncs_total"], 2);
  EXPECT_EQ(samples["mnemon_journal_entries_total"], 3);
  EXPECT_EQ(samples["mnemon_journal_tokens_total"], 4);
  EXPECT_EQ(samples["mnemon_journal_bytes_total"], 5);
  EXPECT_EQ(samples["mnemon_journal_failures_total"], 6);
  EXPECT_EQ(samples["mnemon_journal_commit_seconds_total"], 7.5);
  EXPECT_EQ(samples["mnemon_snapshots_total"], 8);
  EXPECT_EQ(samples["mnemon_snapshot_bytes_total"], 9);
  EXPECT_EQ(samples["mnemon_snapshot_failures_total"], 10);
  EXPECT_EQ(samples["mnemon_snapshots_damaged_total"], 11);
  EXPECT_EQ(samples["mnemon_histories_unloaded_total"], 12);
  now.store->healthy = true;
  EXPECT_EQ(Samples(Make()->Text(now, {}, "")).at("mnemon_store_healthy"), 1);
}

TEST(Metrics, CountsWhatHappensToSessions) {
  const auto metrics = Make();
  const std::pair<SessionEvent, const char*> events[] = {
      {SessionEvent::kCreate, "create"},
      {SessionEvent::kFork, "fork"},
      {SessionEvent::kRewind, "rewind"},
      {SessionEvent::kCheckpoint, "checkpoint"},
      {SessionEvent::kExport, "export"},
      {SessionEvent::kImport, "import"},
      {SessionEvent::kExpire, "expire"},
      {SessionEvent::kVerify, "verify"},
      {SessionEvent::kVerifyFail, "verify_fail"}};
  for (const auto& [event, name] : events) {
    const std::string series =
        StrCat("mnemon_session_events_total{event=\"", name, "\"}");
    EXPECT_EQ(Samples(metrics->Text({}, {}, "")).at(series), 0);
    metrics->OnSessionEvent(event);
    EXPECT_EQ(Samples(metrics->Text({}, {}, "")).at(series), 1) << name;
  }
  auto samples = Samples(metrics->Text({}, {}, ""));
  EXPECT_EQ(samples.at("mnemon_stream_resume_total"), 0);
  EXPECT_EQ(samples.at("mnemon_session_events_total{event=\"restore\"}"), 0);
  EXPECT_EQ(samples.at("mnemon_state_restore_duration_seconds_count{from_tier="
                       "\"disk\"}"),
            0);
  metrics->OnResumed(1);
  metrics->OnRestored(SessionTier::kDisk, Seconds(0.003));
  const std::string text = metrics->Text({}, {}, "");
  samples = Samples(text);
  EXPECT_EQ(samples.at("mnemon_stream_resume_total"), 1);
  EXPECT_EQ(samples.at("mnemon_session_events_total{event=\"restore\"}"), 1);
  EXPECT_EQ(samples.at("mnemon_state_restore_duration_seconds_sum{from_tier="
                       "\"disk\"}"),
            0.003);
  EXPECT_EQ(
      Numbers(Bounds(text, "mnemon_state_restore_duration_seconds_bucket")),
      (std::vector<double>{1e-5, 1e-4, 5e-4, .001, .005, .01, .05, .1, .5, 1, 5}));
}

TEST(Metrics, ReadsTheConnections) {
  auto samples = Samples(Make()->Text({},
                                      {.open = 3,
                                       .limit = 76,
                                       .paused = true,
                                       .in_flight_bytes = 1000,
                                       .in_flight_limit = 2000,
                                       .early_resets = 4,
                                       .accepted = 9,
                                       .refused = {1, 2, 3, 4},
                                       .shut_down = {1, 2, 3, 4, 5, 6, 7}},
                                      ""));
  EXPECT_EQ(samples["mnemon_connections{state=\"open\"}"], 3);
  EXPECT_EQ(samples["mnemon_connection_limit"], 76);
  EXPECT_EQ(samples["mnemon_accept_paused"], 1);
  EXPECT_EQ(samples["mnemon_transport_bytes_in_flight"], 1000);
  EXPECT_EQ(samples["mnemon_transport_bytes_in_flight_limit"], 2000);
  EXPECT_EQ(samples["mnemon_streams_reset_early_total"], 4);
  EXPECT_EQ(samples["mnemon_connections_accepted_total"], 9);
  const std::string refused = "mnemon_connections_refused_total{reason=";
  EXPECT_EQ(samples[refused + "\"limit\"}"], 1);
  EXPECT_EQ(samples[refused + "\"host_limit\"}"], 2);
  EXPECT_EQ(samples[refused + "\"descriptors\"}"], 3);
  EXPECT_EQ(samples[refused + "\"pace\"}"], 4);
  const std::string shut_down = "mnemon_connections_shut_down_total{reason=";
  EXPECT_EQ(samples[shut_down + "\"calls\"}"], 1);
  EXPECT_EQ(samples[shut_down + "\"resets\"}"], 2);
  EXPECT_EQ(samples[shut_down + "\"traffic\"}"], 3);
  EXPECT_EQ(samples[shut_down + "\"memory\"}"], 4);
  EXPECT_EQ(samples[shut_down + "\"silent\"}"], 5);
  EXPECT_EQ(samples[shut_down + "\"idle\"}"], 6);
  EXPECT_EQ(samples[shut_down + "\"end\"}"], 7);
}

TEST(Metrics, AReasonOfTheProcessMakesEachModelUnready) {
  EngineStats now;
  now.models = {{.model = "a"}};
  auto samples = Samples(Make()->Text(now, {}, "log blocked"));
  EXPECT_EQ(samples["mnemon_model_ready{model=\"a\"}"], 0);
  EXPECT_EQ(samples["mnemon_model_unready{model=\"a\",reason=\"process\"}"], 1);
  samples = Samples(Make()->Text(now, {}, ""));
  EXPECT_EQ(samples["mnemon_model_ready{model=\"a\"}"], 1);
}

TEST(Metrics, CallsByMethodAndStatus) {
  const auto metrics = Make();
  metrics->OnCallStarted("mnemon.v1.Models/ListModels");
  AccessRecord call;
  call.method = "mnemon.v1.Models/ListModels";
  call.status = absl::StatusCode::kOk;
  call.total = Seconds(0.00002);
  call.sent_bytes = 2000;
  metrics->OnCallEnded(call);
  const std::string text = metrics->Text({}, {}, "");
  auto samples = Samples(text);
  const std::string labels =
      "{grpc_method=\"mnemon.v1.Models/ListModels\",grpc_status=\"OK\"}";
  EXPECT_EQ(samples["grpc_server_call_started_total{grpc_method=\"mnemon.v1.Models/"
                    "ListModels\"}"],
            1);
  EXPECT_EQ(samples["grpc_server_call_duration_seconds_count" + labels], 1);
  EXPECT_EQ(samples["grpc_server_call_sent_bytes_sum" + labels], 2000);
  EXPECT_EQ(samples["grpc_server_call_received_bytes_count" + labels], 1);
  const auto bounds = Numbers(Bounds(text, "grpc_server_call_duration_seconds_bucket"));
  ASSERT_GE(bounds.size(), 6u);
  EXPECT_THAT(std::vector<double>(bounds.begin(), bounds.begin() + 5),
              ElementsAre(0, 1e-5, 5e-5, 1e-4, 3e-4));
}

// Prometheus refuses a whole page for one bad line: names that hold a quote, a
// backslash or a line break must not make one.
TEST(Metrics, LabelsCannotForgeALine) {
  const auto metrics = Metrics::Create(
      {{.name = "a\"} 1\nforged_total 7", .model_id = "\\", .architecture = "x"}}, {});
  const std::string text = metrics->Text({}, {}, "");
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\nforged_total")), HasSubstr("\\n")));
}

}  // namespace
}  // namespace mnemon
