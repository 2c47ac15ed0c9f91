// SPDX-License-Identifier: MIT
// The pace at which connections of each address are accepted, and those that wait.
//
// A peer whose connection was shut down as abusive can open the next one at once, and
// cost as much again until that is shut down too. So each such connection, a strike,
// divides the pace of its address by four; a strike loses half of its weight in each
// kHalfLife. A connection on which every call was cancelled counts as a tenth of a
// strike, up to three strikes, and a useful one cancels as much.
// The newest one that waits goes first: an attack opens connections all the time, and a
// client that opens one now and then should not wait for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/descriptor.h"
#include "server/transport/connection.h"
#include "server/transport/traffic_check.h"

namespace mnemon {

// Owned by one thread.
class AddressPace {
 public:
  using Time = Connection::Time;
  static constexpr double kPerSecond = 500;     // connections of an address
  static constexpr double kBurst = 1024;        // at once
  static constexpr double kLeastPerSecond = 1;  // whatever the address did
  static constexpr std::chrono::milliseconds kHalfLife{5000};
  // Closed after it: whether a peer that filled its window has gone cannot be seen.
  static constexpr std::chrono::milliseconds kLongestWait{2000};
  static constexpr std::chrono::milliseconds kSweep{250};
  // So many of an address wait; a further one replaces the oldest, which is closed.
  static constexpr size_t kMostOfAddress = 256;

  struct Waiting {
    Descriptor accepted;
    std::string peer;  // as PeerText writes it
    Time since;
  };

  // At most `most` wait in all.
  explicit AddressPace(size_t most) : most_(most) {}

  // A connection of `host` has ended.
  void Count(const std::string& host, ConnectionOutcome outcome, Time now);
  // The share in (0, 1] of its limits that a new connection of `host` may use: less
  // with each strike for abuse.
  double Allowance(const std::string& host, Time now) const;
  // Whether a connection of `host` may be accepted now; if so, it is counted.
  bool Take(const std::string& host, Time now);
  // Makes one of `host` wait. Returns how many were closed for it.
  int Add(const std::string& host, Waiting waiting);
  // One that is due. Every kSweep also closes those that have waited for kLongestWait
  // or whose peers have gone.
  std::optional<Waiting> TakeDue(Time now);
  // When to call TakeDue again; absent: none waits.
  std::optional<Time> NextDue() const;

 private:
  struct Address {
    // As of `counted`:
    double abuse = 0;    // strikes
    double useless = 0;  // strikes
    double tokens = kBurst;
    Time counted;
    std::deque<Waiting> waiting;  // the newest last
  };
  static void Update(Address& address, Time now);
  static bool TakeToken(Address& address, Time now);
  void ForgetSome(Time now);

  const size_t most_;
  std::unordered_map<std::string, Address> addresses_;
  size_t waiting_ = 0;  // of all addresses
  Time next_sweep_;
};

}  // namespace mnemon
