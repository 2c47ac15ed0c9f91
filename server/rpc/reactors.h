// SPDX-License-Identifier: MIT
// The calls that outlast their handler and stream or compute: one reactor each, which
// deletes itself at the end of the call. All arguments outlive the call.
#pragma once

#include <string>

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/statusor.h"
#include "mnemon/v1/generation.pb.h"
#include "mnemon/v1/sessions.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_context.h"
#include "server/rpc/handler_threads.h"
#include "server/rpc/open_calls.h"

namespace mnemon {

// What all calls of a server use.
struct CallServices {
  Engine& engine;
  OpenCalls& calls;
  Admission& admission;
  HandlerThreads& handlers;  // for all that looks for a session
};

// The name of the model that serves a call: that of the session, or the one named,
// which may be empty when one is loaded. The errors are those of
// Engine::ModelOfSession, GetModel.
absl::StatusOr<std::string> ServingModel(Engine& engine, const std::string& session,
                                         const std::string& model);

// Enters the session (an id) and the model that a request names into the record of its
// call, as far as they are known; either may be empty.
void RecordNames(RpcCall& call, Engine& engine, const std::string& session,
                 const std::string& model);

// One write is in flight at a time; tokens that come meanwhile join the next message. A
// refusal is recorded here and nowhere else, whatever refused the call.
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    const CallServices& shared, grpc::CallbackServerContext* context,
    const v1::GenerateRequest* request);

// Messages are read one at a time, and taken in their order between two writes: an
// interrupt is answered before the next one is taken.
grpc::ServerBidiReactor<v1::ConverseRequest, v1::ConverseResponse>* StartConverse(
    const CallServices& shared, grpc::CallbackServerContext* context);

// Reads a part, answers it to its end, and only then reads the next one, so a caller
// that sends faster than the model scores is slowed down by the transport.
grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* StartScore(
    const CallServices& shared, grpc::CallbackServerContext* context);

// The prediction is cancelled when the caller cancels or the server shuts down.
grpc::ServerUnaryReactor* StartPredict(const CallServices& shared,
                                       grpc::CallbackServerContext* context,
                                       const v1::PredictRequest* request,
                                       v1::PredictResponse* response);

// Sends a snapshot in chunks; ends early when the caller or the server does.
grpc::ServerWriteReactor<v1::ExportSessionResponse>* StartExport(
    const CallServices& shared, grpc::CallbackServerContext* context,
    const v1::ExportSessionRequest* request);

// Collects the chunks of a snapshot, within the memory of the engine, then imports it.
grpc::ServerReadReactor<v1::ImportSessionRequest>* StartImport(
    const CallServices& shared, grpc::CallbackServerContext* context,
    v1::Session* response);

}  // namespace mnemon
