// SPDX-License-Identifier: MIT
// An owned file descriptor, closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace mnemon {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}  // takes ownership; -1: none
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

}  // namespace mnemon
