// SPDX-License-Identifier: MIT
#include "server/engine/stepper.h"

#include <exception>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
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
      segments_.push_back(
          {.slot = session.state.slot(),
           .position = feed.position,
           .tokens = std::span(session.history).subspan(feed.position, feed.count),
           .logits = ModeOf(feed)});
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
    const size_t rows = LogitsRows(std::span(segments_).subspan(i, 1));
    if (rows == 0) continue;
    const auto logits = std::span(logits_).subspan(row * vocab, rows * vocab);
    row += rows;
    feed.status =
        feed.call->scoring ? JudgeInto(feed, logits) : SampleInto(feed, logits);
  }
}

LogitsMode Stepper::ModeOf(const Feed& feed) const {
  const int64_t end = feed.position + feed.count;
  if (feed.call->scoring) {
    return end >= feed.call->scoring->next ? LogitsMode::kAll : LogitsMode::kNone;
  }
  const bool sample = feed.call->max_tokens > 0 &&
                      end == static_cast<int64_t>(feed.call->session->history.size());
  return sample ? LogitsMode::kLast : LogitsMode::kNone;
}

absl::Status Stepper::JudgeInto(Feed& feed, std::span<const float> logits) {
  const Call& call = *feed.call;
  const size_t vocab = decoder_.config().vocab;
  for (int64_t i = 0; i < feed.count; ++i) {
    const int64_t index = feed.position + i + 1;
    // Fed once more after a step that failed.
    if (index < call.scoring->next) continue;
    MNEMON_ASSIGN_OR_RETURN(
        TokenLogprobs judged,
        JudgeToken(logits.subspan(i * vocab, vocab), call.session->history[index],
                   call.logprobs.candidates, sampler_));
    feed.judged.push_back(std::move(judged));
  }
  return absl::OkStatus();
}

absl::Status Stepper::SampleInto(Feed& feed, std::span<const float> logits) {
  const Call& call = *feed.call;
  MNEMON_ASSIGN_OR_RETURN(const int32_t token,
                          Sample(logits, call.sampling, feed.position + feed.count,
                                 sampler_, call.session->history));
  if (call.logprobs.wanted) {
    MNEMON_ASSIGN_OR_RETURN(
        feed.logprobs, JudgeToken(logits, token, call.logprobs.candidates, sampler_));
  }
  feed.token = token;
  return absl::OkStatus();
}

}  // namespace mnemon
