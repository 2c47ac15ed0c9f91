// SPDX-License-Identifier: MIT
// The forms of calls that generate text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/gateway/api_call.h"
#include "server/http/http_exchange.h"

namespace mnemon {

// OpenAI's POST /v1/completions, /v1/chat/completions and /v1/responses.
std::shared_ptr<ApiCall> MakeCompletion(GatewayShared& shared,
                                        std::shared_ptr<HttpExchange> exchange,
                                        BodyCharge body);
std::shared_ptr<ApiCall> MakeChatCompletion(GatewayShared& shared,
                                            std::shared_ptr<HttpExchange> exchange,
                                            BodyCharge body);
std::shared_ptr<ApiCall> MakeResponse(GatewayShared& shared,
                                      std::shared_ptr<HttpExchange> exchange,
                                      BodyCharge body);
// DELETE /v1/responses/ID.
std::shared_ptr<ApiCall> MakeDeleteResponse(const std::string& id,
                                            GatewayShared& shared,
                                            std::shared_ptr<HttpExchange> exchange);

// GET /v1/models, and of one model where `name` is not empty.
std::shared_ptr<ApiCall> MakeModels(const std::string& name, GatewayShared& shared,
                                    std::shared_ptr<HttpExchange> exchange);

// POST /v1/sessions/ID/generate: GenerateRequest and GenerateResponse as JSON. A
// response that is no stream holds what the messages of the stream do.
std::shared_ptr<ApiCall> MakeSessionGenerate(const std::string& id,
                                             GatewayShared& shared,
                                             std::shared_ptr<HttpExchange> exchange,
                                             BodyCharge body);

}  // namespace mnemon
