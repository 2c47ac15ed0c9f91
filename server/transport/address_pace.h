// SPDX-License-Identifier: MIT
// The pace at which connections of each address are taken, and those that have to wait.
//
// A peer whose connection was shut down as abusive can open the next one at once, and
// cost as much again until that is shut down too. So each such connection, a strike,
// divides the pace of its address by four, and strikes count half with every kHalfLife.
// Connections on which no call is let to end count a tenth, up to three strikes; useful
// ones make good for as much.
// The newest one that waits goes first: connections of an attack come again and again,
// and one that comes now and then is not to wait behind them.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/files/descriptor.h"
#include "server/transport/connection.h"
#include "server/transport/traffic_check.h"

namespace mnemon {

// Owned by one thread.
class AddressPace {
 public:
  using Time = Connection::Time;
  static constexpr double kPerSecond = 500;  // connections of an address
  static constexpr double kBurst = 1024;     // at once
  // Of any address, whatever it did.
  static constexpr double kLeastPerSecond = 1;
  static constexpr std::chrono::milliseconds kHalfLife{5000};
  // The end of a peer that filled its window cannot be seen before that is read.
  static constexpr std::chrono::milliseconds kLongestWait{2000};
  static constexpr std::chrono::milliseconds kSweep{250};
  // That wait; more take the place of the oldest, which is closed.
  static constexpr size_t kMostOfAddress = 256;

  struct Waiting {
    Descriptor accepted;
    std::string peer;  // as PeerText writes it
    Time since;
  };

  // At most `most` wait.
  explicit AddressPace(size_t most) : most_(most) {}

  // A connection of `host` has ended.
  void Count(const std::string& host, ConnectionOutcome outcome, Time now);
  // In (0, 1]: the share of what a connection may do otherwise that one of `host` is
  // allowed, less with each strike for abuse.
  double Allowance(const std::string& host, Time now) const;
  // Whether a connection of `host` may be taken now; it then counts.
  bool Take(const std::string& host, Time now);
  // Makes one of `host` wait that may not be taken. Returns how many were closed for
  // it.
  int Add(const std::string& host, Waiting waiting);
  // One whose time has come. Also, every kSweep, closes those that have waited for
  // kLongestWait or whose peers have gone.
  std::optional<Waiting> TakeDue(Time now);
  // When TakeDue is to be called again; absent: none waits.
  std::optional<Time> NextDue() const;

 private:
  struct Address {
    // As of `counted`.
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
