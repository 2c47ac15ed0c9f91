// SPDX-License-Identifier: MIT
#include "client/chat/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace mnemon::client {
namespace {

constexpr size_t kMaxLine = size_t{4} << 20;

}  // namespace

bool LineReader::Fill() {
  pollfd fds[] = {{.fd = input_, .events = POLLIN}, {.fd = stop_, .events = POLLIN}};
  while (poll(fds, 2, -1) < 0) {
    if (errno != EINTR) return false;
  }
  if (fds[1].revents != 0) return false;
  char bytes[4096];
  ssize_t size;
  do {
    size = read(input_, bytes, sizeof(bytes));
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(size));
  return true;
}

std::optional<std::string> LineReader::Next() {
  size_t searched = 0;
  while (!ended_) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    searched = buffer_.size();
    if (searched >= kMaxLine) break;
    ended_ = !Fill();
  }
  if (buffer_.empty()) return std::nullopt;
  return std::exchange(buffer_, {});
}

}  // namespace mnemon::client
