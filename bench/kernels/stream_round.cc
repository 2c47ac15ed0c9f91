// SPDX-License-Identifier: MIT
#include "bench/kernels/stream_round.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using Time = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Queue of streams with something to take.
class Inbox {
 public:
  void Push(size_t stream) {
    const std::lock_guard lock(mutex_);
    ready_.push_back(stream);
    changed_.notify_one();
  }
  // nullopt if `deadline` passes first.
  std::optional<size_t> Pop(Time::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [&] { return !ready_.empty(); })) {
      return std::nullopt;
    }
    const size_t stream = ready_.front();
    ready_.pop_front();
    return stream;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<size_t> ready_;  // guarded by mutex_; one entry per stream at most
};

struct Reader {
  std::shared_ptr<TokenStream> stream;
  Time::time_point asked;
  Time::time_point last;  // token
  int64_t tokens = 0;
};

std::vector<int32_t> DrawPrompt(const RoundShape& shape, int64_t stream) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < shape.prompt_tokens; ++i) {
    prompt.push_back(static_cast<int32_t>((stream * 31 + i * 7919 + 13) % shape.vocab));
  }
  return prompt;
}

// Tokens that arrive together count as equal gaps; those that arrive with the first
// have none.
void NoteTokens(int64_t count, Reader& reader, RoundTimes& times) {
  if (count == 0) return;
  const Time::time_point now = Time::now();
  if (reader.tokens == 0) {
    times.first_token.push_back(Seconds(now - reader.asked).count());
  } else {
    const double gap = Seconds(now - reader.last).count() / static_cast<double>(count);
    times.gaps.insert(times.gaps.end(), count, gap);
  }
  reader.tokens += count;
  reader.last = now;
}

absl::Status CheckEnd(const TokenChunk& chunk, const RoundShape& shape) {
  MNEMON_RETURN_IF_ERROR(chunk.status);
  if (chunk.finish && chunk.finish->generated_tokens == shape.new_tokens) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(StrCat("the context of the model ends within ",
                                              shape.prompt_tokens, " + ",
                                              shape.new_tokens, " tokens"));
}

// Reads until all streams have ended; cancels nothing.
absl::Status ReadAll(const RoundShape& shape, Time::time_point deadline, Inbox& inbox,
                     std::vector<Reader>& readers, RoundTimes& times) {
  for (size_t open = readers.size(); open > 0;) {
    const std::optional<size_t> ready = inbox.Pop(deadline);
    if (!ready) return absl::DeadlineExceededError("out of time");
    Reader& reader = readers[*ready];
    const TokenChunk chunk = reader.stream->Take();
    NoteTokens(static_cast<int64_t>(chunk.tokens.size()), reader, times);
    if (!chunk.finished) continue;
    MNEMON_RETURN_IF_ERROR(CheckEnd(chunk, shape));
    --open;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RoundTimes> RunRound(Engine& engine, const RoundShape& shape,
                                    Seconds limit) {
  // Shared, since the engine may still call back after this function has returned.
  const auto inbox = std::make_shared<Inbox>();
  std::vector<Reader> readers;
  RoundTimes times;
  const Time::time_point deadline =
      Time::now() + std::chrono::duration_cast<Time::duration>(limit);
  absl::Status status;
  for (int64_t i = 0; i < shape.streams && status.ok(); ++i) {
    const size_t index = readers.size();
    const Time::time_point asked = Time::now();
    absl::StatusOr<std::shared_ptr<TokenStream>> stream =
        engine.Generate({.prompt = DrawPrompt(shape, i),
                         .sampling = {.temperature = 0.0},
                         .max_tokens = static_cast<int32_t>(shape.new_tokens)},
                        [inbox, index] { inbox->Push(index); });
    status = stream.status();
    if (status.ok()) readers.push_back({.stream = *std::move(stream), .asked = asked});
  }
  if (status.ok()) status = ReadAll(shape, deadline, *inbox, readers, times);
  if (!status.ok()) {
    for (Reader& reader : readers) reader.stream->Cancel();
    return status;
  }
  return times;
}

}  // namespace mnemon
