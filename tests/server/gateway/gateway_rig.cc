// SPDX-License-Identifier: MIT
#include "tests/server/gateway/gateway_rig.h"

namespace mnemon {

std::string GatewayRig::Joined(const std::string& chunked) {
  std::string out;
  size_t at = 0;
  while (at < chunked.size()) {
    const size_t end = chunked.find("\r\n", at);
    if (end == std::string::npos) break;
    const size_t size = std::stoul(chunked.substr(at, end - at), nullptr, 16);
    if (size == 0) return out;
    out += chunked.substr(end + 2, size);
    at = end + 2 + size + 2;
  }
  ADD_FAILURE() << "the stream has no end: " << chunked;
  return out;
}

HttpAnswer GatewayRig::ParseAnswer(const std::string& raw) {
  const size_t split = raw.find("\r\n\r\n");
  if (split == std::string::npos) return {};
  HttpAnswer answer{.code = std::stoi(raw.substr(9, 3)),
                    .headers = raw.substr(0, split + 2),
                    .body = raw.substr(split + 4)};
  if (answer.headers.find("Transfer-Encoding: chunked") != std::string::npos) {
    answer.body = Joined(answer.body);
  }
  return answer;
}

std::vector<nlohmann::json> GatewayRig::ParseEvents(const std::string& text) {
  std::vector<nlohmann::json> events;
  size_t at = 0;
  while ((at = text.find("data: ", at)) != std::string::npos) {
    const size_t end = text.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    const std::string data = text.substr(at + 6, end - at - 6);
    events.push_back(data == "[DONE]" ? nlohmann::json(data)
                                      : nlohmann::json::parse(data, nullptr, false));
    EXPECT_FALSE(events.back().is_discarded()) << data;
    at = end;
  }
  return events;
}

}  // namespace mnemon
