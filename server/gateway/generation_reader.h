// SPDX-License-Identifier: MIT
// One call of Generate, read message by message: the next one is made once it is asked
// for, so a slow peer pauses its session alone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "mnemon/v1/generation.pb.h"
#include "server/gateway/unary_call.h"
#include "server/service/service.h"

namespace mnemon {

// Next, Cancel and the callbacks run on one strand, by `post`; on_lost on any thread.
class GenerationReader {
 public:
  struct Events {
    PostToStrand post;
    std::function<void(const v1::GenerateResponse&)> on_message;
    // Once, behind the last message.
    std::function<void(const absl::Status&)> on_end;
    // In place of on_end, where memory has run out for it. Does not throw.
    std::function<void()> on_lost;
  };

  // Starts the call; its first message follows. What `events` hold is released after
  // on_end.
  static std::shared_ptr<GenerationReader> Start(const Service& service,
                                                 v1::GenerateRequest request,
                                                 const std::string& request_id,
                                                 Events events);
  virtual ~GenerationReader() = default;

  // The next message follows. Once behind each on_message.
  virtual void Next() = 0;
  // Ends the call; on_end follows.
  virtual void Cancel() = 0;
};

}  // namespace mnemon
