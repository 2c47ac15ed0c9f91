// SPDX-License-Identifier: MIT
#include "server/engine/stepper.h"

#include <exception>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// The text of a foreign exception may hold paths and addresses: it goes to the log.
absl::Status ModelFailure(std::string_view what) {
  LogEvent(LogLevel::kError, "model_step_failed", {{"error", std::string(what)}});
  return MakeError(absl::StatusCode::kInternal, "the model failed to step",
                   {.reason = "MODEL_FAILURE"});
}

}  // namespace

absl::Status Stepper::Step(std::span<const Feed> feeds, bool& thrown) {
  thrown = true;
  try {
    segments_.clear();
    for (const Feed& feed : feeds) {
      Session& session = *feed.call->session;
      session.state.BeforeFeed(arena_, feed.count, feed.kept);
      const int64_t end = feed.position + feed.count;
      const bool sample = feed.call->max_tokens > 0 &&
                          end == static_cast<int64_t>(session.history.size());
      segments_.push_back(
          {.slot = session.state.slot(),
           .position = feed.position,
           .tokens = std::span(session.history).subspan(feed.position, feed.count),
           .logits = sample ? LogitsMode::kLast : LogitsMode::kNone});
    }
    const size_t floats = LogitsRows(segments_) * decoder_.config().vocab;
    if (logits_.size() < floats) logits_.resize(floats);
    absl::Status status = decoder_.Step(segments_, arena_, logits_.data());
    thrown = false;
    return status;
  } catch (const std::bad_alloc&) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "out of memory in a model step",
        {.reason = "OUT_OF_MEMORY", .retry_after = std::chrono::milliseconds(1000)});
  } catch (const std::exception& e) {
    return ModelFailure(e.what());
  } catch (...) {
    return ModelFailure("unknown exception");
  }
}

void Stepper::Run(std::span<Feed> feeds) {
  bool thrown = false;
  absl::Status status = Step(feeds, thrown);
  if (!status.ok()) {
    for (Feed& feed : feeds) {
      feed.call->alone_until = feed.position + feed.count;
      // A Status promises that no state has changed; an exception promises nothing.
      if (thrown) feed.call->session->state.Distrust(arena_, feed.position);
    }
    if (feeds.size() == 1) feeds[0].status = std::move(status);
    return;
  }
  const size_t vocab = decoder_.config().vocab;
  size_t row = 0;
  for (size_t i = 0; i < feeds.size(); ++i) {
    Feed& feed = feeds[i];
    feed.fed = true;
    if (segments_[i].logits == LogitsMode::kNone) continue;
    const absl::StatusOr<int32_t> token =
        Sample(std::span(logits_).subspan(row++ * vocab, vocab), feed.call->sampling,
               feed.position + feed.count, sampler_);
    if (token.ok()) {
      feed.token = *token;
    } else {
      feed.status = token.status();
    }
  }
}

}  // namespace mnemon
