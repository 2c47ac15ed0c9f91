// SPDX-License-Identifier: MIT
// Connections that are not calls: silent, slow, of other protocols, junk.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "bench/wire/attacker.h"

namespace mnemon::wire {
namespace {

constexpr int kConnections = 4000;
constexpr int kMoreThanDescriptors = 400;
constexpr int kPeers = 16;                           // source addresses, used in turn
constexpr std::chrono::milliseconds kTrickle{1000};  // between two bytes of a slow one
constexpr std::chrono::milliseconds kRetry{50};

// First bytes of the connections; the last one is sent byte by byte.
std::vector<std::string> Beginnings() {
  const std::string preface(kPreface);
  std::string junk;
  for (int i = 0; i < 300; ++i) junk.push_back(static_cast<char>(i * 151 + 7));
  return {"", preface.substr(0, 12), preface + Settings({}),
          // The beginning of a ClientHello of TLS 1.2.
          std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
              std::string(64, '\x5a'),
          "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", junk,
          preface + Frame(FrameType::kData, 0, 0, junk), preface};
}

struct Held {
  Socket socket;
  std::string slow;  // rest to send, a byte at a time
};

// Whether it is still open.
bool Look(Socket& socket) {
  std::string ignored;
  while (socket.Receive(ignored)) ignored.clear();
  return socket.open();
}

}  // namespace

void HoldConnections(const AttackPlan& plan, AttackTally& tally) {
  const std::vector<std::string> beginnings = Beginnings();
  std::vector<Held> held;
  for (int i = 0; i < kConnections && GoesOn(plan); ++i) {
    Socket socket(plan.port, SourceOf(plan, i % kPeers), Soon(plan));
    if (!socket.open()) {
      ++tally.refused;
      continue;
    }
    ++tally.connections;
    const size_t kind = static_cast<size_t>(i) % beginnings.size();
    const bool slow = kind + 1 == beginnings.size();
    if (!slow) tally.bytes += static_cast<int64_t>(socket.Send(beginnings[kind]));
    held.push_back({std::move(socket), slow ? beginnings[kind] : ""});
  }
  while (GoesOn(plan)) {
    for (Held& one : held) {
      if (!one.socket.open()) continue;
      if (!one.slow.empty()) one.slow.erase(0, one.socket.Send(one.slow.substr(0, 1)));
      if (!Look(one.socket)) ++tally.cut;
    }
    std::this_thread::sleep_until(
        std::min<TimePoint>(plan.until, std::chrono::steady_clock::now() + kTrickle));
  }
}

void TakeAllDescriptors(const AttackPlan& plan, AttackTally& tally) {
  std::vector<Socket> held;
  int peer = 0;
  while (GoesOn(plan)) {
    std::erase_if(held, [&](Socket& socket) {
      const bool cut = !Look(socket);
      tally.cut += cut ? 1 : 0;
      return cut;
    });
    while (held.size() < kMoreThanDescriptors && GoesOn(plan)) {
      Socket socket(plan.port, SourceOf(plan, peer++ % kPeers), Soon(plan));
      if (!socket.open()) {
        ++tally.refused;
        break;
      }
      ++tally.connections;
      socket.Send(std::string(kPreface) + Settings({}));
      held.push_back(std::move(socket));
    }
    std::this_thread::sleep_until(
        std::min<TimePoint>(plan.until, std::chrono::steady_clock::now() + kRetry));
  }
}

}  // namespace mnemon::wire
