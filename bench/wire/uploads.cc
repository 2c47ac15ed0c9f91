// SPDX-License-Identifier: MIT
// Messages that the server must keep: unfinished ones, and prompts of a million tokens.
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/wire/attacker.h"

namespace mnemon::wire {
namespace {

constexpr int kUploaders = 4;  // connections
constexpr int kUnfinished = 400;
constexpr size_t kMessageBytes = 4 << 20;
constexpr int kPrompts = 330;

struct Upload {
  uint32_t stream;
  size_t sent = 0;
};

// Sends `body` on each of `streams` streams, in turn as far as windows allow, and then
// `last`.
void UploadOnStreams(const AttackPlan& plan, AttackTally& tally, int streams,
                     std::string_view body,
                     const std::function<std::string(uint32_t)>& last) {
  std::unordered_map<const Attacker*, std::vector<Upload>> open;
  RunByTurns(plan, tally, kUploaders, {}, [&](Attacker& attacker) {
    std::vector<Upload>& uploads = open[&attacker];
    if (attacker.Fresh()) {
      uploads.clear();
      for (int i = 0; i < streams / kUploaders; ++i) {
        uploads.push_back({.stream = attacker.NextStream()});
        attacker.Send(Frame(FrameType::kHeaders, kEndHeaders, uploads.back().stream,
                            CallBlock(kGenerate)),
                      1);
      }
    }
    bool any = false;
    for (Upload& upload : uploads) {
      if (upload.sent == body.size() || !GoesOn(plan)) continue;
      const size_t sent =
          attacker.peer().SendData(upload.stream, body.substr(upload.sent), Soon(plan));
      any = any || sent > 0;
      upload.sent += sent;
      tally.bytes += static_cast<int64_t>(sent);
      if (upload.sent == body.size()) attacker.Send(last(upload.stream), 1);
    }
    if (!any) attacker.peer().Read(Soon(plan));
  });
}

}  // namespace

void LeaveMessagesUnfinished(const AttackPlan& plan, AttackTally& tally) {
  const std::string body =
      GrpcPrefix(kMessageBytes) + std::string(kMessageBytes - 1, '\0');
  UploadOnStreams(plan, tally, kUnfinished, body,
                  [](uint32_t) { return std::string(); });
}

void SendLongPrompts(const AttackPlan& plan, AttackTally& tally) {
  UploadOnStreams(
      plan, tally, kPrompts, GrpcMessage(plan.long_prompt),
      [](uint32_t stream) { return Frame(FrameType::kData, kEndStream, stream, {}); });
}

}  // namespace mnemon::wire
