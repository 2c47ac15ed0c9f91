// SPDX-License-Identifier: MIT
// A client's TCP connection over loopback that never blocks.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace mnemon::wire {

using TimePoint = std::chrono::steady_clock::time_point;

// One thread.
class Socket {
 public:
  // Connects to 127.0.0.1:`port` from `source`, an address of loopback; any of
  // 127.0.0.0/8 is one, so that a server sees as many peers as it is to see. Not open
  // when that does not succeed until `deadline`.
  Socket(int port, const std::string& source, TimePoint deadline);
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  // Until the peer was seen to have closed it.
  bool open() const { return fd_ >= 0; }
  // Sends the beginning of `bytes`, as much as there is room for: its length.
  size_t Send(std::string_view bytes);
  // Appends what has come, up to 64 KiB, to `out`; whether anything had.
  bool Receive(std::string& out);
  // Waits until bytes have come, or, where `writes`, there is room for some.
  void Await(bool writes, TimePoint deadline) const;
  void Close();

 private:
  int fd_ = -1;
};

}  // namespace mnemon::wire
