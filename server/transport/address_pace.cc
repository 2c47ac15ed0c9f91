// SPDX-License-Identifier: MIT
#include "server/transport/address_pace.h"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mnemon {
namespace {

// In strikes. With kMostAbuse the pace is at its slowest.
constexpr double kMostAbuse = 6;
constexpr double kMostUseless = 3;
constexpr double kSmallStrike = 0.1;
constexpr double kSlower = 4;  // by one strike
constexpr double kLeastAllowance = 1.0 / 16;
// That are remembered; a peer with more addresses is a case for a firewall.
constexpr size_t kMostAddresses = 16384;

double Share(double strikes) { return std::pow(kSlower, -strikes); }

double PerSecond(double strikes) {
  return std::max(AddressPace::kLeastPerSecond,
                  AddressPace::kPerSecond * Share(strikes));
}

double Burst(double strikes) {
  return std::max(1.0, AddressPace::kBurst * Share(strikes));
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// The weight of a strike after so long.
double Left(std::chrono::nanoseconds passed) {
  return std::exp2(-std::max(0.0, Seconds(passed) / Seconds(AddressPace::kHalfLife)));
}

// Whether the peer has closed it; what it sent before may still be there.
bool IsGone(int fd) {
  pollfd ended = {.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&ended, 1, 0) == 1;
}

}  // namespace

void AddressPace::Update(Address& address, Time now) {
  const double left = Left(now - address.counted);
  address.abuse *= left;
  address.useless *= left;
  const double strikes = address.abuse + address.useless;
  const double passed = std::max(0.0, Seconds(now - address.counted));
  address.tokens =
      std::min(Burst(strikes), address.tokens + passed * PerSecond(strikes));
  address.counted = now;
}

bool AddressPace::TakeToken(Address& address, Time now) {
  Update(address, now);
  if (address.tokens < 1) return false;
  address.tokens -= 1;
  return true;
}

void AddressPace::ForgetSome(Time now) {
  for (auto next = addresses_.begin(); next != addresses_.end();) {
    Address& address = next->second;
    Update(address, now);
    const double strikes = address.abuse + address.useless;
    const bool forget = address.waiting.empty() && strikes < 0.5 &&
                        address.tokens + 1 >= Burst(strikes);
    next = forget ? addresses_.erase(next) : std::next(next);
  }
}

void AddressPace::Count(const std::string& host, ConnectionOutcome outcome, Time now) {
  const auto found = addresses_.find(host);
  if (found == addresses_.end()) return;
  Address& address = found->second;
  Update(address, now);
  switch (outcome) {
    case ConnectionOutcome::kUseful:
      address.abuse = std::max(0.0, address.abuse - kSmallStrike);
      address.useless = std::max(0.0, address.useless - kSmallStrike);
      break;
    case ConnectionOutcome::kUseless:
      address.useless = std::min(kMostUseless, address.useless + kSmallStrike);
      break;
    case ConnectionOutcome::kAbusive:
      address.abuse = std::min(kMostAbuse, address.abuse + 1);
      break;
  }
  address.tokens = std::min(address.tokens, Burst(address.abuse + address.useless));
}

double AddressPace::Allowance(const std::string& host, Time now) const {
  const auto found = addresses_.find(host);
  if (found == addresses_.end()) return 1;
  const double abuse = found->second.abuse * Left(now - found->second.counted);
  return std::max(kLeastAllowance, Share(abuse));
}

bool AddressPace::Take(const std::string& host, Time now) {
  auto found = addresses_.find(host);
  if (found == addresses_.end()) {
    if (addresses_.size() >= kMostAddresses) ForgetSome(now);
    if (addresses_.size() >= kMostAddresses) return true;
    found = addresses_.try_emplace(host).first;
    found->second.counted = now;
  }
  return found->second.waiting.empty() && TakeToken(found->second, now);
}

int AddressPace::Add(const std::string& host, Waiting waiting) {
  std::deque<Waiting>* full = &addresses_[host].waiting;
  full->push_back(std::move(waiting));
  ++waiting_;
  if (full->size() <= kMostOfAddress) {
    if (waiting_ <= most_) return 0;
    full = &std::max_element(addresses_.begin(), addresses_.end(),
                             [](const auto& a, const auto& b) {
                               return a.second.waiting.size() < b.second.waiting.size();
                             })
                ->second.waiting;
  }
  full->pop_front();
  --waiting_;
  return 1;
}

std::optional<AddressPace::Waiting> AddressPace::TakeDue(Time now) {
  if (waiting_ == 0) return std::nullopt;
  if (now >= next_sweep_) {
    next_sweep_ = now + kSweep;
    for (auto& [host, address] : addresses_) {
      waiting_ -= std::erase_if(address.waiting, [&](const Waiting& one) {
        return now - one.since >= kLongestWait || IsGone(one.accepted.get());
      });
    }
  }
  for (auto& [host, address] : addresses_) {
    if (address.waiting.empty() || !TakeToken(address, now)) continue;
    Waiting newest = std::move(address.waiting.back());
    address.waiting.pop_back();
    --waiting_;
    return newest;
  }
  return std::nullopt;
}

std::optional<AddressPace::Time> AddressPace::NextDue() const {
  if (waiting_ == 0) return std::nullopt;
  Time next = next_sweep_;
  for (const auto& [host, address] : addresses_) {
    if (address.waiting.empty()) continue;
    const std::chrono::duration<double> wait(
        std::max(0.0, 1 - address.tokens) / PerSecond(address.abuse + address.useless));
    const Time due =
        address.counted + std::chrono::ceil<std::chrono::milliseconds>(wait);
    next = std::min(next, due);
  }
  return next;
}

}  // namespace mnemon
