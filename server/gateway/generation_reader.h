// SPDX-License-Identifier: MIT
// One gRPC call of Generate within the process, read message by message: the server
// sends the next one once it is asked for, so a slow peer pauses its session alone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <grpcpp/client_context.h>

#include "absl/status/status.h"
#include "mnemon/v1/generation.grpc.pb.h"

namespace mnemon {

// Next, Cancel and the callbacks run on one strand, by `post`.
class GenerationReader {
 public:
  struct Events {
    // Runs what it is given on the strand.
    std::function<void(std::function<void()>)> post;
    std::function<void(const v1::GenerateResponse&)> on_message;
    // Once, behind the last message.
    std::function<void(const absl::Status&)> on_end;
  };

  // Starts the call, and reads its first message. What `events` hold is released after
  // on_end.
  static std::shared_ptr<GenerationReader> Start(v1::Generation::Stub& stub,
                                                 v1::GenerateRequest request,
                                                 const std::string& request_id,
                                                 Events events);
  virtual ~GenerationReader() = default;

  // Reads the next message. Once behind each on_message.
  virtual void Next() = 0;
  // Ends the call; on_end follows.
  virtual void Cancel() = 0;
};

}  // namespace mnemon
