// SPDX-License-Identifier: MIT
// One mutex guards everything that the callers share. A message takes no lock: gaps
// between tokens are passed on some hundreds at a time.
#include "client/load/load.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/load/arrivals.h"
#include "client/load/load_sessions.h"

namespace mnemon::client {
namespace {

using std::chrono::steady_clock;

constexpr size_t kCallersPerConnection = 64;
constexpr size_t kGapsAtOnce = 512;
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
// Pause of a caller in a closed loop after a failed call.
constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::milliseconds kLongestPause{5000};
// A call may register with its client just after the client was told to cancel all.
constexpr std::chrono::milliseconds kCancelAgain{50};
constexpr std::chrono::hours kSessionTtl{1};

steady_clock::duration Span(double seconds) {
  return std::chrono::duration_cast<steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

bool TellsThatServerIsGone(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return false;
  const auto detail = GetErrorDetail(status);
  return !detail || detail->reason == "DRAINING" || detail->reason == "SHUTTING_DOWN";
}

steady_clock::duration PauseAfter(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  if (!detail || !detail->retry_after) return kPause;
  return std::clamp(*detail->retry_after, std::chrono::milliseconds(1), kLongestPause);
}

}  // namespace

class Load::Impl {
 public:
  Impl(const LoadOptions& options, Connect connect)
      : options_(options), connect_(std::move(connect)), figures_(options.limits) {}

  absl::StatusOr<LoadResult> Run();
  void Stop();

 private:
  struct Call {
    int64_t number = 0;  // determines its content
    std::optional<TimePoint> due;
    bool waited = false;  // for a free caller
    bool measured = false;
    bool resting = false;  // generates one token
    std::string session;
  };
  // Number of a call in a closed loop.
  struct Turn {
    int callers = 0;
    int64_t calls = kUnbounded;
    TimePoint end = TimePoint::max();
    bool measured = false;
  };

  int most_callers() const;
  Client& ClientOf(size_t caller) { return *clients_[caller / kCallersPerConnection]; }
  absl::Status ConnectAll();
  bool stopped() const;
  void StopWith(LoadEnd end, absl::Status why);
  // Starts a thread with `body`; returns false and stops the load if there is none.
  bool StartThread(std::function<void()> body);
  void JoinThreads();

  absl::StatusOr<GenerateResult> Make(Client& client, const Call& call);
  // Makes a call, on the session that has been idle longest if there are sessions.
  absl::Status MakeInTurn(Client& client, Call call);
  void RunClosed(const Turn& turn);
  void CallInTurn(const Turn& turn, Client& client);
  void RunOpen(TimePoint begin);
  void ServeDue(Client& client);
  void RunRested();
  absl::Status Measure(double& seconds);

  const LoadOptions options_;
  const Connect connect_;
  std::vector<std::unique_ptr<Client>> clients_;  // constant while calls run
  std::vector<std::thread> threads_;              // Run's thread
  LoadSessions sessions_;

  mutable std::mutex mutex_;         // guards all below
  std::condition_variable changed_;  // stopping, ends of calls and of threads
  std::condition_variable due_changed_;
  LoadFigures figures_;
  Distribution rested_ttft_;
  bool stopping_ = false;
  LoadEnd end_ = LoadEnd::kDone;
  absl::Status why_;  // reason of kServerGone, or why the load failed
  size_t threads_running_ = 0;
  int64_t next_number_ = 0;  // in a closed loop
  // Open loop: calls that are due, number of calls that are due or running, and whether
  // there will be more.
  std::deque<Call> due_;
  size_t in_flight_ = 0;
  bool arrivals_ended_ = false;
};

int Load::Impl::most_callers() const {
  if (options_.concurrency > 0) return options_.concurrency;
  return options_.sessions > 0 ? std::min(options_.sessions, options_.max_in_flight)
                               : options_.max_in_flight;
}

bool Load::Impl::stopped() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

void Load::Impl::StopWith(LoadEnd end, absl::Status why) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    end_ = end;
    why_ = std::move(why);
  }
  changed_.notify_all();
  due_changed_.notify_all();
}

void Load::Impl::Stop() { StopWith(LoadEnd::kStopped, absl::OkStatus()); }

// Otherwise a call would include the time to connect.
absl::Status Load::Impl::ConnectAll() {
  const size_t callers = static_cast<size_t>(most_callers());
  for (size_t i = 0; i < callers && !stopped(); i += kCallersPerConnection) {
    clients_.push_back(connect_());
    MNEMON_RETURN_IF_ERROR(clients_.back()->ListModels().status());
  }
  return absl::OkStatus();
}

bool Load::Impl::StartThread(std::function<void()> body) {
  {
    std::lock_guard lock(mutex_);
    ++threads_running_;
  }
  try {
    threads_.emplace_back([this, body = std::move(body)] {
      body();
      {
        std::lock_guard lock(mutex_);
        --threads_running_;
      }
      changed_.notify_all();
    });
    return true;
  } catch (const std::system_error& e) {
    {
      std::lock_guard lock(mutex_);
      --threads_running_;
    }
    StopWith(LoadEnd::kDone, absl::ResourceExhaustedError(
                                 StrCat("no thread for another caller: ", e.what())));
    return false;
  }
}

void Load::Impl::JoinThreads() {
  std::unique_lock lock(mutex_);
  while (threads_running_ > 0) {
    if (!stopping_) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    for (const auto& client : clients_) client->CancelCalls();
    lock.lock();
    changed_.wait_for(lock, kCancelAgain, [&] { return threads_running_ == 0; });
  }
  lock.unlock();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

absl::StatusOr<GenerateResult> Load::Impl::Make(Client& client, const Call& call) {
  CallDraw draw = DrawCall(options_.draw, call.number);
  const GenerateOptions generate{
      .model = options_.model,
      .session = call.session,
      .tokens = std::move(draw.prompt),
      .stopping = {.max_tokens = call.resting ? 1 : draw.max_tokens},
      .sampling = {.temperature = options_.temperature, .seed = draw.seed},
      .deadline = options_.deadline,
  };
  std::vector<float> gaps;
  const auto hand_over = [&] {
    std::lock_guard lock(mutex_);
    figures_.AddGaps(gaps);
    gaps.clear();
  };
  const TimePoint sent = steady_clock::now();
  CallTimes times(call.due.value_or(sent));
  const bool traced = call.measured && options_.on_end;
  CallTrace trace{.begin = call.due.value_or(sent)};
  absl::StatusOr<GenerateResult> result =
      client.Generate(generate, [&](const GenerateChunk& chunk) {
        if (chunk.tokens.empty()) return true;
        const TimePoint now = steady_clock::now();
        const auto gap = times.OnTokens(now, static_cast<int64_t>(chunk.tokens.size()));
        if (traced) {
          trace.arrivals.insert(trace.arrivals.end(), chunk.tokens.size(), now);
        }
        if (gap && call.measured) gaps.push_back(static_cast<float>(*gap));
        if (gaps.size() >= kGapsAtOnce) hand_over();
        return true;
      });
  const TimePoint end = steady_clock::now();
  times.OnEnd(end);
  if (traced) {
    trace.end = end;
    trace.status = result.status();
    options_.on_end(std::move(trace));
  }
  if (!gaps.empty()) hand_over();
  std::lock_guard lock(mutex_);
  if (call.resting && result.ok() && times.ttft()) rested_ttft_.Add(*times.ttft());
  if (!call.measured) return result;
  if (call.waited) {
    figures_.AddWaited();
  } else if (call.due) {
    figures_.AddLateness(SecondsBetween(*call.due, sent));
  }
  if (result.ok()) {
    figures_.AddCompleted(times, *result);
  } else if (stopping_ && absl::IsCancelled(result.status())) {
    figures_.AddUnfinished();
  } else {
    figures_.AddFailed(result.status());
  }
  return result;
}

absl::Status Load::Impl::MakeInTurn(Client& client, Call call) {
  const bool stateful = options_.sessions > 0 && call.measured;
  LoadSession session;
  if (stateful) session = sessions_.Take();
  call.session = session.id;
  const absl::StatusOr<GenerateResult> result = Make(client, call);
  absl::Status status = result.status();
  if (TellsThatServerIsGone(status)) StopWith(LoadEnd::kServerGone, status);
  if (!stateful) return status;
  if (result.ok()) session.history = result->history_tokens;
  const int64_t room =
      int64_t{options_.draw.prompt_tokens.most} + options_.draw.max_tokens.most;
  if (options_.context_limit && session.history + room > *options_.context_limit) {
    // An error here shows in the session's next call.
    sessions_.Replace(client, session).IgnoreError();
  }
  sessions_.GiveBack(std::move(session));
  return status;
}

void Load::Impl::CallInTurn(const Turn& turn, Client& client) {
  std::unique_lock lock(mutex_);
  while (!stopping_ && next_number_ < turn.calls && steady_clock::now() < turn.end) {
    // Warm-up calls have other numbers than measured calls.
    const int64_t number = turn.measured ? next_number_ : -1 - next_number_;
    ++next_number_;
    lock.unlock();
    absl::Status status =
        MakeInTurn(client, {.number = number, .measured = turn.measured});
    if (!turn.measured && !status.ok() && !IsRefusal(status)) {
      StopWith(LoadEnd::kDone, status);
    }
    lock.lock();
    if (status.ok()) continue;
    changed_.wait_until(lock,
                        std::min(turn.end, steady_clock::now() + PauseAfter(status)),
                        [&] { return stopping_; });
  }
}

void Load::Impl::RunClosed(const Turn& turn) {
  {
    std::lock_guard lock(mutex_);
    next_number_ = 0;
  }
  for (int caller = 0; caller < turn.callers; ++caller) {
    const auto body = [this, &turn, caller] {
      CallInTurn(turn, ClientOf(static_cast<size_t>(caller)));
    };
    if (!StartThread(body)) break;
  }
  JoinThreads();
}

void Load::Impl::ServeDue(Client& client) {
  std::unique_lock lock(mutex_);
  while (true) {
    due_changed_.wait(lock,
                      [&] { return stopping_ || !due_.empty() || arrivals_ended_; });
    if (stopping_ || due_.empty()) return;
    Call call = std::move(due_.front());
    due_.pop_front();
    lock.unlock();
    MakeInTurn(client, std::move(call)).IgnoreError();  // counted
    lock.lock();
    --in_flight_;
    changed_.notify_all();
  }
}

// This thread makes calls due; callers, at most one per call in flight, send them.
void Load::Impl::RunOpen(TimePoint begin) {
  Arrivals arrivals(options_.rate, options_.draw.seed);
  const auto most = static_cast<size_t>(most_callers());
  const TimePoint end =
      options_.requests ? TimePoint::max() : begin + Span(options_.seconds);
  TimePoint blocked_until = begin;
  std::unique_lock lock(mutex_);
  for (int64_t number = 0; number < options_.requests.value_or(kUnbounded); ++number) {
    const TimePoint due = begin + Span(arrivals.Next());
    if (due >= end) break;
    changed_.wait_until(lock, due, [&] { return stopping_; });
    if (in_flight_ >= most) {
      changed_.wait_until(lock, end, [&] { return stopping_ || in_flight_ < most; });
      blocked_until = steady_clock::now();
    }
    if (stopping_) break;
    if (in_flight_ >= most || steady_clock::now() >= end) {
      figures_.AddUnsent();
      continue;
    }
    due_.push_back({.number = number,
                    .due = due,
                    .waited = blocked_until > due,
                    .measured = true});
    ++in_flight_;
    const bool another = threads_.size() < in_flight_;
    lock.unlock();
    if (another) {
      Client& client = ClientOf(threads_.size());
      StartThread([this, &client] { ServeDue(client); });
    }
    due_changed_.notify_one();
    lock.lock();
  }
  arrivals_ended_ = true;
  lock.unlock();
  due_changed_.notify_all();
  JoinThreads();
}

// One call at a time, so that none waits for another.
void Load::Impl::RunRested() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, Span(options_.rest_seconds), [&] { return stopping_; });
  }
  StartThread([this] {
    for (int i = 0; i < options_.sessions && !stopped(); ++i) {
      const LoadSession session = sessions_.Take();
      // A session without calls has nothing to restore.
      if (session.history == 0) continue;
      const Call call{
          .number = kUnbounded - 1 - i, .resting = true, .session = session.id};
      const absl::Status status = Make(*clients_.front(), call).status();
      if (TellsThatServerIsGone(status)) StopWith(LoadEnd::kServerGone, status);
    }
  });
  JoinThreads();
}

absl::Status Load::Impl::Measure(double& seconds) {
  if (options_.sessions > 0) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(options_.rest_seconds));
    MNEMON_RETURN_IF_ERROR(sessions_.Create(*clients_.front(), options_.sessions,
                                            options_.model, kSessionTtl + rest,
                                            [this] { return stopped(); }));
  }
  if (stopped()) return absl::OkStatus();
  const TimePoint begin = steady_clock::now();
  if (options_.concurrency > 0) {
    RunClosed(
        {.callers = options_.concurrency,
         .calls = options_.requests.value_or(kUnbounded),
         .end = options_.requests ? TimePoint::max() : begin + Span(options_.seconds),
         .measured = true});
  } else {
    RunOpen(begin);
  }
  seconds = SecondsBetween(begin, steady_clock::now());
  if (options_.rest_seconds > 0 && options_.sessions > 0 && !stopped()) RunRested();
  return absl::OkStatus();
}

absl::StatusOr<LoadResult> Load::Impl::Run() {
  constexpr int64_t kWarmupCallers = 8;
  MNEMON_RETURN_IF_ERROR(ConnectAll());
  if (options_.warmup > 0 && !stopped()) {
    RunClosed({.callers = static_cast<int>(std::min(
                   {options_.warmup, kWarmupCallers, int64_t{most_callers()}})),
               .calls = options_.warmup});
  }
  double seconds = 0;
  absl::Status status;
  if (!stopped()) {
    status = Measure(seconds);
  }
  absl::Status not_deleted;
  if (!clients_.empty()) not_deleted = sessions_.DeleteAll(*clients_.front());
  MNEMON_RETURN_IF_ERROR(status);
  std::lock_guard lock(mutex_);
  if (end_ == LoadEnd::kDone && !why_.ok()) return why_;
  LoadResult result{.figures = figures_,
                    .seconds = seconds,
                    .end = end_,
                    .gone = why_,
                    .rested_ttft = rested_ttft_,
                    .not_deleted = not_deleted};
  const double late = figures_.lateness().Quantile(0.99);
  if (late > options_.max_lateness_seconds) {
    result.void_why = absl::StrFormat(
        "the client did not keep up: calls were sent %.1f ms late at the p99, limit "
        "%.1f ms",
        late * 1e3, options_.max_lateness_seconds * 1e3);
  }
  return result;
}

Load::Load(const LoadOptions& options, Connect connect)
    : impl_(std::make_unique<Impl>(options, std::move(connect))) {}
Load::~Load() = default;
absl::StatusOr<LoadResult> Load::Run() { return impl_->Run(); }
void Load::Stop() { impl_->Stop(); }

}  // namespace mnemon::client
