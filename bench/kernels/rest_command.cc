// SPDX-License-Identifier: MIT
// Memory of idle sessions, and the cost of calls beside them.
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/figures/spread.h"
#include "bench/kernels/bench_flags.h"
#include "bench/kernels/commands.h"
#include "bench/kernels/model_size.h"
#include "server/engine/engine.h"

namespace mnemon {
namespace {

struct RestFlags : BenchFlags {
  std::string architecture;
  std::string size;
  int64_t sessions = 10'000;
};

// Timed calls of each kind, with a tenth and with all of the sessions.
constexpr int64_t kTimed = 200;

int64_t ResidentBytes() {
  malloc_trim(0);
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::string IdOf(int64_t session) { return StrCat("s", session); }

// An engine filled with sessions, each with a history and a state.
class RestingSessions {
 public:
  RestingSessions(const BenchModel& model, std::unique_ptr<Engine> engine,
                  int64_t tokens)
      : vocab_(model.config().vocab), tokens_(tokens), engine_(std::move(engine)) {}

  absl::Status Fill(int64_t end) {
    for (; made_ < end; ++made_) {
      MNEMON_RETURN_IF_ERROR(engine_->CreateSession({.id = IdOf(made_)}).status());
      MNEMON_RETURN_IF_ERROR(Generate(made_, tokens_ - 1));
    }
    return absl::OkStatus();
  }
  // Median times in microseconds, as <call>_us.<when>.
  absl::Status Measure(const std::string& when, Record& record);
  EngineStats Stats() const { return engine_->Stats(); }

 private:
  // Generates one token after a prompt.
  absl::Status Generate(int64_t session, int64_t prompt_tokens);
  static absl::StatusOr<double> MedianOf(
      const std::function<absl::Status(int64_t)>& call);

  const int64_t vocab_;
  const int64_t tokens_;
  const std::unique_ptr<Engine> engine_;
  int64_t made_ = 0;
};

absl::Status RestingSessions::Generate(int64_t session, int64_t prompt_tokens) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < prompt_tokens; ++i) {
    prompt.push_back(static_cast<int32_t>((session * 31 + i * 7919) % vocab_));
  }
  GenerateRequest request;
  request.session = IdOf(session);
  request.prompt = std::move(prompt);
  request.max_tokens = 1;
  auto ready = std::make_shared<std::promise<void>>();
  std::future<void> token = ready->get_future();
  // The token may be ready alone at first; the end follows it at once.
  auto once = std::make_shared<std::once_flag>();
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<TokenStream> stream,
                          engine_->Generate(request, [=] {
                            std::call_once(*once, [&] { ready->set_value(); });
                          }));
  token.wait();
  while (true) {
    const TokenChunk chunk = stream->Take();
    if (chunk.finished) return chunk.status;
    std::this_thread::yield();
  }
}

absl::StatusOr<double> RestingSessions::MedianOf(
    const std::function<absl::Status(int64_t)>& call) {
  std::vector<double> microseconds;
  for (int64_t i = 0; i < kTimed; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    MNEMON_RETURN_IF_ERROR(call(i));
    microseconds.push_back(std::chrono::duration<double, std::micro>(
                               std::chrono::steady_clock::now() - begin)
                               .count());
  }
  return SpreadOf(std::move(microseconds)).median;
}

absl::Status RestingSessions::Measure(const std::string& when, Record& record) {
  MNEMON_ASSIGN_OR_RETURN(
      const double create, MedianOf([&](int64_t i) {
        return engine_->CreateSession({.id = StrCat("new", i)}).status();
      }));
  std::string page_token;
  MNEMON_ASSIGN_OR_RETURN(
      const double list, MedianOf([&](int64_t) -> absl::Status {
        MNEMON_ASSIGN_OR_RETURN(
            SessionPage page,
            engine_->ListSessions({.page_size = 100, .page_token = page_token}));
        page_token = std::move(page.next_page_token);
        return absl::OkStatus();
      }));
  MNEMON_ASSIGN_OR_RETURN(const double remove, MedianOf([&](int64_t i) {
                            return engine_->DeleteSession(StrCat("new", i));
                          }));
  MNEMON_ASSIGN_OR_RETURN(const double generate, MedianOf([&](int64_t i) {
                            return Generate(i * 7919 % made_, 1);
                          }));
  record.Set("create_us." + when, create);
  record.Set("list_us." + when, list);
  record.Set("delete_us." + when, remove);
  record.Set("generate_us." + when, generate);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const BenchModel& model,
                                                   const DecoderOptions& decoder) {
  const ModelFacts facts{.name = "default",
                         .architecture = model.config().architecture,
                         .vocab = model.config().vocab};
  return Engine::Create({{.facts = facts, .decoder = &model.decoder()}},
                        {.state_bytes = int64_t{1} << 40,
                         .pool = decoder.pool,
                         .sampling = &SamplingOperationsOf(decoder.target)});
}

absl::Status MeasureModel(const BenchModel& model, const Compute& compute,
                          const RestFlags& flags, Record& record) {
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                          MakeEngine(model, compute.decoder));
  RestingSessions sessions(model, std::move(engine), flags.context);
  const int64_t few = flags.sessions / 10;
  MNEMON_RETURN_IF_ERROR(sessions.Fill(few));
  MNEMON_RETURN_IF_ERROR(sessions.Measure("tenth", record));
  const EngineStats before = sessions.Stats();
  const int64_t resident = ResidentBytes();
  MNEMON_RETURN_IF_ERROR(sessions.Fill(flags.sessions));
  const EngineStats after = sessions.Stats();
  const int64_t taken = ResidentBytes() - resident;
  MNEMON_RETURN_IF_ERROR(sessions.Measure("all", record));
  const int64_t more = flags.sessions - few;
  record.Set("sessions", flags.sessions);
  record.Set("state_bytes", (after.state_bytes - before.state_bytes) / more);
  record.Set("counted_bytes", (after.memory.used - before.memory.used) / more);
  record.Set("resident_bytes", taken / more);
  return absl::OkStatus();
}

absl::Status RunRest(const RestFlags& flags) {
  return RunComputing(flags.compute, [&](const Compute& compute) -> absl::Status {
    MNEMON_ASSIGN_OR_RETURN(const auto model,
                            BenchModel::Make(flags.architecture, flags.size, compute));
    Report report;
    report.run.Set("command", "rest");
    Record& record = report.results.emplace_back(DescribeModel(*model, flags));
    MNEMON_RETURN_IF_ERROR(MeasureModel(*model, compute, flags, record));
    const std::vector<Column> columns = {{"architecture", "architecture"},
                                         {"size", "size"},
                                         {"sessions", "sessions"},
                                         {"tokens", "context"},
                                         {"state B", "state_bytes"},
                                         {"counted B", "counted_bytes"},
                                         {"resident B", "resident_bytes"},
                                         {"create us", "create_us.all", 1},
                                         {"of a tenth", "create_us.tenth", 1},
                                         {"list us", "list_us.all", 1},
                                         {"of a tenth", "list_us.tenth", 1},
                                         {"generate us", "generate_us.all", 1},
                                         {"of a tenth", "generate_us.tenth", 1}};
    PrintReport(report, columns, flags);
    return absl::OkStatus();
  });
}

}  // namespace

void AddRestCommand(CommandLine& line) {
  auto flags = std::make_shared<RestFlags>();
  flags->context = 50;
  Command command = line.AddCommand(
      "rest",
      "Sessions at rest in the server's engine: their memory, and what calls cost when "
      "a tenth and when all of them are there.",
      {"mnemon-bench rest --arch fast_weights --size XS --sessions 100000"},
      [flags] { return RunRest(*flags); });
  command.Add("--arch", &flags->architecture, "Architecture")
      .Required()
      .OneOf(BenchArchitectures());
  command.Add("--size", &flags->size, "Size")
      .Required()
      .OneOf({BenchSizes().begin(), BenchSizes().end()});
  command.Add("--context", &flags->context, "Tokens of each session's history")
      .Between(2, 1 << 20);
  command.Add("--sessions", &flags->sessions, "Sessions at rest")
      .Between(1000, 1'000'000);
  command.Add("--json", &flags->json, "Print one JSON document");
  AddStepComputeFlags(command, flags->compute);
}

}  // namespace mnemon
