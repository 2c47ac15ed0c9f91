// SPDX-License-Identifier: MIT
#include "bench/wire/attacker.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace mnemon::wire {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMoment{20};
// Delay before a connection is replaced: frames are to flood, not connections.
constexpr milliseconds kReconnect{10};
constexpr milliseconds kConnect{500};

}  // namespace

std::string SourceOf(const AttackPlan& plan, int n) {
  return plan.source + "." + std::to_string(n + 1);
}

bool GoesOn(const AttackPlan& plan) { return steady_clock::now() < plan.until; }

TimePoint Soon(const AttackPlan& plan) {
  return std::min<TimePoint>(plan.until, steady_clock::now() + kMoment);
}

Attacker::Attacker(const AttackPlan& plan, AttackTally& tally,
                   const PeerOptions& options)
    : plan_(plan), tally_(tally), options_(options) {}

Attacker::~Attacker() { CountEnd(); }

bool Attacker::Ready() {
  if (peer_ != nullptr && peer_->open()) return true;
  const TimePoint now = steady_clock::now();
  if (now < not_before_ || now >= plan_.until) return false;
  CountEnd();
  not_before_ = now + kReconnect;
  const TimePoint deadline = std::min<TimePoint>(plan_.until, now + kConnect);
  peer_ = std::make_unique<Peer>(plan_.port, SourceOf(plan_, 0), deadline, options_);
  next_ = 1;
  if (!peer_->open()) {
    ++tally_.refused;
    peer_ = nullptr;
    return false;
  }
  ++tally_.connections;
  fresh_ = true;
  return peer_->Start(deadline);
}

bool Attacker::Send(std::string_view bytes, int64_t frames) {
  if (!peer_->Send(bytes, Soon(plan_))) return false;
  tally_.frames += frames;
  tally_.bytes += static_cast<int64_t>(bytes.size());
  return true;
}

void Attacker::Leave() {
  if (peer_ == nullptr) return;
  tally_.ended += peer_->received().ended;
  peer_ = nullptr;
}

void Attacker::CountEnd() {
  if (peer_ != nullptr && !peer_->open()) ++tally_.cut;
  Leave();
}

void RunByTurns(const AttackPlan& plan, AttackTally& tally, int count,
                const PeerOptions& options,
                const std::function<void(Attacker&)>& turn) {
  std::vector<std::unique_ptr<Attacker>> attackers;
  for (int i = 0; i < count; ++i) {
    attackers.push_back(std::make_unique<Attacker>(plan, tally, options));
  }
  while (GoesOn(plan)) {
    bool any = false;
    for (const auto& attacker : attackers) {
      if (!GoesOn(plan) || !attacker->Ready()) continue;
      any = true;
      turn(*attacker);
    }
    if (!any) std::this_thread::sleep_until(Soon(plan));
  }
}

}  // namespace mnemon::wire
