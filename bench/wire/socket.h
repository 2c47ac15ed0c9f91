// SPDX-License-Identifier: MIT
// Non-blocking TCP connection of a client over loopback.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace mnemon::wire {

using TimePoint = std::chrono::steady_clock::time_point;

// Used by one thread.
class Socket {
 public:
  // Connects to 127.0.0.1:`port` from `source`, any address of 127.0.0.0/8, so that a
  // server sees as many peers as wanted. Not open if that does not succeed until
  // `deadline`.
  Socket(int port, const std::string& source, TimePoint deadline);
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  // False once the peer has closed it.
  bool open() const { return fd_ >= 0; }
  // Sends the beginning of `bytes`, as far as there is room; returns its length.
  size_t Send(std::string_view bytes);
  // Appends received bytes, up to 64 KiB, to `out`; returns whether there were any.
  bool Receive(std::string& out);
  // Waits until bytes have arrived or, if `writes`, there is room for some.
  void Await(bool writes, TimePoint deadline) const;
  void Close();

 private:
  int fd_ = -1;
};

}  // namespace mnemon::wire
