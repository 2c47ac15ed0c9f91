// SPDX-License-Identifier: MIT
// The methods of mnemon.v1 with one request and one response.
#pragma once

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

}  // namespace mnemon
