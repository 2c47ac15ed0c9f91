// SPDX-License-Identifier: MIT
#include "tests/fakes/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/fakes/patience.h"

namespace mnemon {

std::string SendRaw(int port, const std::string& text) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit = {.tv_sec = kPatience.count(), .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    // A peer may refuse before it has read all.
    send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    char buffer[4096];
    for (ssize_t got; (got = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  return answer;
}

HttpAnswer HttpGet(int port, const std::string& path, const std::string& method) {
  const std::string text =
      SendRaw(port, method + " " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n");
  HttpAnswer answer;
  const size_t end = text.find("\r\n\r\n");
  if (text.rfind("HTTP/1.", 0) != 0 || end == std::string::npos) return answer;
  answer.code = std::atoi(text.c_str() + 9);
  answer.headers = text.substr(0, end);
  answer.body = text.substr(end + 4);
  return answer;
}

}  // namespace mnemon
