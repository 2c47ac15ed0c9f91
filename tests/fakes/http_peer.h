// SPDX-License-Identifier: MIT
// A connection to an HTTP server on loopback, driven by a test.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "gtest/gtest.h"
#include "tests/fakes/patience.h"

namespace mnemon {

class HttpPeer {
 public:
  // `receive_buffer`: bytes that the kernel accepts before somebody reads; 0 = default.
  explicit HttpPeer(int port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~HttpPeer() { close(fd_); }
  HttpPeer(const HttpPeer&) = delete;
  HttpPeer& operator=(const HttpPeer&) = delete;

  // Whether all of it was taken.
  bool Send(const std::string& text) {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Whether there is something to read, or the end, before `limit` has passed.
  bool Readable(std::chrono::milliseconds limit) {
    pollfd one = {.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&one, 1, static_cast<int>(limit.count())) == 1;
  }
  // Everything received until the server closes.
  std::string ReadToTheEnd() {
    std::string all;
    char buffer[65536];
    while (Readable(kPatience)) {
      const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
      if (got <= 0) return all;
      all.append(buffer, static_cast<size_t>(got));
    }
    ADD_FAILURE() << "the server did not close";
    return all;
  }
  // Reads until `text` has come; false at the end, or if it hangs.
  bool ReadUntil(const std::string& text) {
    std::string all;
    char buffer[4096];
    while (all.find(text) == std::string::npos) {
      if (!Readable(kPatience)) return false;
      const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
      if (got <= 0) return false;
      all.append(buffer, static_cast<size_t>(got));
    }
    return true;
  }

 private:
  const int fd_;
};

}  // namespace mnemon
