// SPDX-License-Identifier: MIT
// The methods of mnemon.v1: functions that begin unary calls, and a handler for each
// streaming call, which takes what comes from its door and the engine in one order.
#pragma once

#include <memory>

#include <google/protobuf/empty.pb.h>

#include "mnemon/v1/generation.pb.h"
#include "mnemon/v1/models.pb.h"
#include "mnemon/v1/sessions.pb.h"
#include "server/service/call_services.h"
#include "server/service/caller.h"

namespace mnemon {

template <class RequestType, class ResponseType>
struct UnaryMethod {
  using Request = RequestType;
  using Response = ResponseType;

  const char* name;  // in access records
  // Begins a call, which ends with UnaryCaller::Answer, at once or later from any
  // thread. Request and response stay until then, and `services` are copied. May throw
  // std::bad_alloc: then the call has not begun.
  void (*begin)(const CallServices& services, UnaryCaller& caller,
                const Request& request, Response& response);
};

extern const UnaryMethod<v1::CreateSessionRequest, v1::Session> kCreateSession;
extern const UnaryMethod<v1::GetSessionRequest, v1::Session> kGetSession;
extern const UnaryMethod<v1::GetSessionHistoryRequest, v1::SessionHistory>
    kGetSessionHistory;
extern const UnaryMethod<v1::ListSessionsRequest, v1::ListSessionsResponse>
    kListSessions;
extern const UnaryMethod<v1::UpdateSessionRequest, v1::Session> kUpdateSession;
extern const UnaryMethod<v1::DeleteSessionRequest, google::protobuf::Empty>
    kDeleteSession;
extern const UnaryMethod<v1::ForkSessionRequest, v1::Session> kForkSession;
extern const UnaryMethod<v1::RewindSessionRequest, v1::Session> kRewindSession;
extern const UnaryMethod<v1::CheckpointSessionRequest, v1::Checkpoint>
    kCheckpointSession;
extern const UnaryMethod<v1::VerifySessionRequest, v1::VerifySessionResponse>
    kVerifySession;

extern const UnaryMethod<v1::TokenizeRequest, v1::TokenizeResponse> kTokenize;
extern const UnaryMethod<v1::DetokenizeRequest, v1::DetokenizeResponse> kDetokenize;
// The prediction is cancelled when the caller goes or the server shuts down.
extern const UnaryMethod<v1::PredictRequest, v1::PredictResponse> kPredict;

extern const UnaryMethod<v1::ListModelsRequest, v1::ListModelsResponse> kListModels;
extern const UnaryMethod<v1::GetModelRequest, v1::Model> kGetModel;

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
  // The call is over: its end is with the door. The last event.
  virtual void OnDone() = 0;
};

// All arguments outlive the handler, but for `services`, which are copied. May throw
// std::bad_alloc.

// One message is on its way at a time; tokens that come meanwhile join the next one, as
// far as the stream has room, so a slow caller pauses its session. Records refusals.
std::unique_ptr<StreamHandler> MakeGenerateHandler(
    const CallServices& services, Caller& caller, const v1::GenerateRequest& request,
    ResponseWriter<v1::GenerateResponse>& writer);

// Takes messages one at a time, between two writes: an interrupt is answered before the
// next one is taken.
std::unique_ptr<StreamHandler> MakeConverseHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ConverseRequest>& reader,
    ResponseWriter<v1::ConverseResponse>& writer);

// Answers a part to its end before it reads the next one, so the transport slows down a
// caller that sends faster than the model scores.
std::unique_ptr<StreamHandler> MakeScoreHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ScoreRequest>& reader, ResponseWriter<v1::ScoreResponse>& writer);

// Sends a snapshot in chunks; ends early when the caller or the server does.
std::unique_ptr<StreamHandler> MakeExportHandler(
    const CallServices& services, Caller& caller,
    const v1::ExportSessionRequest& request,
    ResponseWriter<v1::ExportSessionResponse>& writer);

// Collects the chunks of a snapshot, within the memory of the engine, then imports it
// and fills in `response`.
std::unique_ptr<StreamHandler> MakeImportHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ImportSessionRequest>& reader, v1::Session& response,
    CallEnd& end);

}  // namespace mnemon
