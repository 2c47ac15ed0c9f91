// SPDX-License-Identifier: MIT
#include "server/rpc/stream_counts.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "server/transport/peer_text.h"

namespace mnemon {
namespace {

using nlohmann::json;

// Forgets ended connections when so many are known.
constexpr size_t kMostKnown = 1 << 16;

// Takes `text`, which gRPC has allocated; a discarded value when there is none.
json Parse(char* text) {
  const std::unique_ptr<char, decltype(&gpr_free)> owner(text, &gpr_free);
  return text == nullptr ? json() : json::parse(text, nullptr, false);
}

// gRPC gives out an id some time before the socket can be found.
constexpr int64_t kLateSockets = 1000;

// Whole numbers are texts there, absent when 0.
int64_t Number(const json& object, const char* key) {
  const auto found = object.find(key);
  int64_t number = 0;
  if (found != object.end() && found->is_string()) {
    (void)absl::SimpleAtoi(found->get_ref<const std::string&>(), &number);
  }
  return number;
}

std::vector<int64_t> Servers() {
  std::vector<int64_t> ids;
  const json page = Parse(grpc_channelz_get_servers(0));
  if (!page.is_object() || !page.contains("server")) return ids;
  for (const json& server : page["server"]) {
    if (server.contains("ref")) ids.push_back(Number(server["ref"], "serverId"));
  }
  return ids;
}

}  // namespace

std::optional<StreamCounts> StreamCountReader::Read(const std::string& peer) {
  if (!sockets_.contains(peer)) FindNewSockets();
  const auto known = sockets_.find(peer);
  if (known == sockets_.end()) return std::nullopt;
  const json answer = Parse(grpc_channelz_get_socket(known->second));
  if (!answer.is_object() || !answer.contains("socket")) {
    sockets_.erase(known);
    return std::nullopt;
  }
  const json& socket = answer["socket"];
  if (!socket.contains("data")) return StreamCounts{};
  const json& data = socket["data"];
  return StreamCounts{
      .started = Number(data, "streamsStarted"),
      .ended = Number(data, "streamsSucceeded") + Number(data, "streamsFailed")};
}

void StreamCountReader::FindNewSockets() {
  if (sockets_.size() > kMostKnown) {
    sockets_.clear();
    next_socket_ = 0;
  }
  int64_t newest = next_socket_;
  for (const int64_t server : Servers()) {
    int64_t from = next_socket_;
    for (bool more = true; more;) {
      const json page = Parse(grpc_channelz_get_server_sockets(server, from, 0));
      more = page.is_object() && !page.contains("end") && page.contains("socketRef");
      if (!page.is_object() || !page.contains("socketRef")) break;
      const int64_t before = from;
      for (const json& ref : page["socketRef"]) {
        const int64_t id = Number(ref, "socketId");
        from = std::max(from, id + 1);
        if (!ref.contains("name") || !ref["name"].is_string()) continue;
        // "chttp2 ipv4:127.0.0.1:40312"
        const std::string_view name = ref["name"].get_ref<const std::string&>();
        const std::string peer = PeerText(name.substr(name.rfind(' ') + 1));
        if (!peer.empty()) sockets_.insert_or_assign(peer, id);
      }
      more = more && from > before;
    }
    newest = std::max(newest, from);
  }
  next_socket_ = std::max(next_socket_, newest - kLateSockets);
}

}  // namespace mnemon
