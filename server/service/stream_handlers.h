// SPDX-License-Identifier: MIT
// The handlers of streaming calls: one object for each call, which takes what comes
// from its door and from the engine in one order.
#pragma once

#include <memory>

#include "mnemon/v1/generation.pb.h"
#include "mnemon/v1/sessions.pb.h"
#include "server/service/call_services.h"
#include "server/service/caller.h"

namespace mnemon {

// Safe for concurrent use. A handler ends its call once, with CallEnd::Finish or
// ResponseWriter::WriteLast; the door then calls OnDone and destroys the handler.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  // Begins the call. Once, before all that follows. May throw std::bad_alloc: then the
  // call has not begun, and its handler is destroyed without OnDone.
  virtual void Start() = 0;
  // The read is done; false: there is no further message.
  virtual void OnRead(bool message) = 0;
  // The message was taken; false: it was not, and none will be.
  virtual void OnWritten(bool taken) = 0;
  // The caller has cancelled the call, or has gone.
  virtual void OnGone() = 0;
  // The call is over: its end is with the door. Nothing is called behind it.
  virtual void OnDone() = 0;
};

// All arguments outlive the handler, but for `services`, which are copied. May throw
// std::bad_alloc.

// One message is on its way at a time; tokens that come meanwhile join the next one, as
// far as the stream has room, so a slow caller pauses its session. A refusal is
// recorded here and nowhere else, whatever refused the call.
std::unique_ptr<StreamHandler> MakeGenerateHandler(
    const CallServices& services, Caller& caller, const v1::GenerateRequest& request,
    ResponseWriter<v1::GenerateResponse>& writer);

// Messages are read one at a time, and taken in their order between two writes: an
// interrupt is answered before the next one is taken.
std::unique_ptr<StreamHandler> MakeConverseHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ConverseRequest>& reader,
    ResponseWriter<v1::ConverseResponse>& writer);

// Reads a part, answers it to its end, and only then reads the next one, so a caller
// that sends faster than the model scores is slowed down by the transport.
std::unique_ptr<StreamHandler> MakeScoreHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ScoreRequest>& reader, ResponseWriter<v1::ScoreResponse>& writer);

// Sends a snapshot in chunks; ends early when the caller or the server does.
std::unique_ptr<StreamHandler> MakeExportHandler(
    const CallServices& services, Caller& caller,
    const v1::ExportSessionRequest& request,
    ResponseWriter<v1::ExportSessionResponse>& writer);

// Collects the chunks of a snapshot, within the memory of the engine, then imports it.
// Where it ends well, `response` is filled in.
std::unique_ptr<StreamHandler> MakeImportHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ImportSessionRequest>& reader, v1::Session& response,
    CallEnd& end);

}  // namespace mnemon
