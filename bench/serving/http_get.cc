// SPDX-License-Identifier: MIT
#include "bench/serving/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "base/strings.h"

namespace mnemon::serving {

HttpAnswer HttpGet(int port, const std::string& path, int limit) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval silence = {.tv_sec = limit, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));  // connects, too
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string request =
      StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  std::string text;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    char buffer[16384];
    for (ssize_t got; (got = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  const size_t space = text.find(' '), body = text.find("\r\n\r\n");
  if (space == std::string::npos || body == std::string::npos) return {};
  return {std::atoi(text.c_str() + space), text.substr(body + 4)};
}

}  // namespace mnemon::serving
