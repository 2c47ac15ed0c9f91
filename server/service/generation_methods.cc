// SPDX-License-Identifier: MIT
#include <utility>

#include "base/status_macros.h"
#include "server/service/answer.h"
#include "server/service/messages/resource_name.h"
#include "server/service/unary_methods.h"

namespace mnemon {
namespace {

void Tokenize(const CallServices& services, UnaryCaller& caller,
              const v1::TokenizeRequest& request, v1::TokenizeResponse& response) {
  AnswerNow(caller, {.model = request.model()}, [&]() -> absl::Status {
    const auto model = ParseOptionalModel(request.model(), "model");
    RecordNames(caller.progress(), services.engine, "", model.value_or(""));
    MNEMON_RETURN_IF_ERROR(services.admission.Admit(caller));
    MNEMON_RETURN_IF_ERROR(model.status());
    MNEMON_ASSIGN_OR_RETURN(TokenizedText text,
                            services.engine.Tokenize(*model, request.text()));
    response.mutable_tokens()->Add(text.tokens.begin(), text.tokens.end());
    response.mutable_byte_offsets()->Add(text.byte_offsets.begin(),
                                         text.byte_offsets.end());
    return absl::OkStatus();
  });
}

void Detokenize(const CallServices& services, UnaryCaller& caller,
                const v1::DetokenizeRequest& request,
                v1::DetokenizeResponse& response) {
  AnswerNow(caller, {.model = request.model()}, [&]() -> absl::Status {
    const auto model = ParseOptionalModel(request.model(), "model");
    RecordNames(caller.progress(), services.engine, "", model.value_or(""));
    MNEMON_RETURN_IF_ERROR(services.admission.Admit(caller));
    MNEMON_RETURN_IF_ERROR(model.status());
    MNEMON_ASSIGN_OR_RETURN(
        DetokenizedText text,
        services.engine.Detokenize(*model,
                                   {request.tokens().begin(), request.tokens().end()}));
    response.set_raw(std::move(text.raw));
    response.set_text(std::move(text.text));
    return absl::OkStatus();
  });
}

}  // namespace

const UnaryMethod<v1::TokenizeRequest, v1::TokenizeResponse> kTokenize = {
    "mnemon.v1.Generation/Tokenize", &Tokenize};
const UnaryMethod<v1::DetokenizeRequest, v1::DetokenizeResponse> kDetokenize = {
    "mnemon.v1.Generation/Detokenize", &Detokenize};

}  // namespace mnemon
