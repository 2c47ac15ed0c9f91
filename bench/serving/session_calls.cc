// SPDX-License-Identifier: MIT
#include "bench/serving/session_calls.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {

absl::StatusOr<double> Turn(client::Client& client, const std::string& id,
                            int64_t prompt_tokens, int64_t new_tokens, uint64_t seed) {
  const client::GenerateOptions options{
      .session = id,
      .tokens = DrawPrompt(prompt_tokens, seed),
      .stopping = {.max_tokens = static_cast<int32_t>(new_tokens)},
      .sampling = {.temperature = 0},
      .deadline = std::chrono::ceil<std::chrono::milliseconds>(kHangs)};
  const TimePoint begin = SteadyClock::now();
  double first = -1;
  MNEMON_RETURN_IF_ERROR(
      client
          .Generate(options,
                    [&](const client::GenerateChunk& chunk) {
                      if (first < 0 && !chunk.tokens.empty()) {
                        first = Seconds(SteadyClock::now() - begin).count();
                      }
                      return true;
                    })
          .status());
  if (first < 0) return absl::InternalError(StrCat("Generate on ", id, ": no token"));
  return first;
}

std::string IdOf(int64_t number) { return absl::StrFormat("s%07d", number); }

absl::Status MakeSessions(Clients& clients, const std::string& model, int64_t first,
                          int64_t end, int64_t prompt_tokens) {
  std::atomic<int64_t> next{first};
  std::mutex mutex;
  absl::Status failed;  // guarded by mutex
  std::vector<std::thread> creators;
  for (int i = 0; i < kCreators; ++i) {
    client::Client& client = clients.at(static_cast<size_t>(i));
    creators.emplace_back([&] {
      for (int64_t number; (number = next++) < end;) {
        absl::Status status = client.CreateSession(IdOf(number), model).status();
        if (status.ok()) {
          status = Turn(client, IdOf(number), prompt_tokens, 1,
                        static_cast<uint64_t>(number))
                       .status();
        }
        if (status.ok()) continue;
        next = end;
        std::lock_guard lock(mutex);
        failed.Update(status);
      }
    });
  }
  for (std::thread& creator : creators) creator.join();
  return failed;
}

absl::StatusOr<std::vector<double>> Timed(
    int64_t count, const std::function<absl::Status(int64_t number)>& call) {
  std::vector<double> seconds;
  for (int64_t number = 0; number < count; ++number) {
    const TimePoint begin = SteadyClock::now();
    MNEMON_RETURN_IF_ERROR(call(number));
    seconds.push_back(Seconds(SteadyClock::now() - begin).count());
  }
  return seconds;
}

}  // namespace mnemon::serving
