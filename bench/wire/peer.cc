// SPDX-License-Identifier: MIT
#include "bench/wire/peer.h"

#include <algorithm>

namespace mnemon::wire {
namespace {

constexpr size_t kMostAtOnce = 65536;
// Limit of answers that wait because the server takes nothing; further ones are
// dropped.
constexpr size_t kMostAnswers = 1 << 20;

uint32_t NumberAt(std::string_view bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = at; i < at + count; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return value;
}

}  // namespace

Peer::Peer(int port, const std::string& source, TimePoint deadline,
           const PeerOptions& options)
    : socket_(port, source, deadline), options_(options) {}

bool Peer::Start(TimePoint deadline) {
  return Send(std::string(kPreface) + Settings({}), deadline);
}

void Peer::Flush() { out_.erase(0, socket_.Send(out_)); }

bool Peer::Send(std::string_view bytes, TimePoint deadline) {
  bool added = false;
  while (open()) {
    ReceiveAll();
    Flush();
    if (out_.empty()) {
      if (added) return open();
      const size_t sent = socket_.Send(bytes);
      out_ = bytes.substr(sent);
      added = true;
      if (out_.empty()) return open();
    }
    if (std::chrono::steady_clock::now() >= deadline) return added && open();
    socket_.Await(true, deadline);
  }
  return false;
}

size_t Peer::SendData(uint32_t stream, std::string_view bytes, TimePoint deadline) {
  ReceiveAll();
  const int64_t room = std::min(window_, initial_window_ + moved_[stream]);
  if (room <= 0) return 0;
  bytes = bytes.substr(0, std::min(static_cast<size_t>(room), kMostAtOnce));
  std::string frames;
  for (size_t at = 0; at < bytes.size(); at += kMaxFrameBytes) {
    frames += Frame(FrameType::kData, 0, stream, bytes.substr(at, kMaxFrameBytes));
  }
  if (!Send(frames, deadline)) return 0;
  window_ -= static_cast<int64_t>(bytes.size());
  moved_[stream] -= static_cast<int64_t>(bytes.size());
  return bytes.size();
}

void Peer::Read(TimePoint deadline) {
  const int64_t before = received_.bytes;
  do {
    socket_.Await(false, deadline);
    ReceiveAll();
    Flush();
  } while (open() && received_.bytes == before &&
           std::chrono::steady_clock::now() < deadline);
}

void Peer::ReceiveAll() {
  for (size_t before = in_.size(); socket_.Receive(in_); before = in_.size()) {
    received_.bytes += static_cast<int64_t>(in_.size() - before);
    Parse();
  }
}

void Peer::Parse() {
  size_t at = 0;
  while (in_.size() - at >= kFrameHeaderBytes) {
    const size_t length = NumberAt(in_, at, 3);
    if (in_.size() - at < kFrameHeaderBytes + length) break;
    Handle(static_cast<FrameType>(in_[at + 3]), static_cast<uint8_t>(in_[at + 4]),
           NumberAt(in_, at + 5, 4),
           std::string_view(in_).substr(at + kFrameHeaderBytes, length));
    at += kFrameHeaderBytes + length;
  }
  in_.erase(0, at);
}

void Peer::Handle(FrameType type, uint8_t flags, uint32_t stream,
                  std::string_view payload) {
  ++received_.frames;
  switch (type) {
    case FrameType::kData:
      received_.data_bytes += static_cast<int64_t>(payload.size());
      if (!payload.empty()) {
        Answer(WindowUpdate(0, static_cast<uint32_t>(payload.size())));
        Answer(WindowUpdate(stream, static_cast<uint32_t>(payload.size())));
      }
      received_.ended += flags & kEndStream;
      break;
    case FrameType::kHeaders:
      ++received_.headers;
      received_.ended += flags & kEndStream;
      break;
    case FrameType::kReset:
      ++received_.resets;
      ++received_.ended;
      break;
    case FrameType::kSettings:
      if ((flags & kAck) != 0) break;
      ApplySettings(payload);
      Answer(Frame(FrameType::kSettings, kAck, 0, {}));
      break;
    case FrameType::kPing:
      if ((flags & kAck) == 0) Answer(Frame(FrameType::kPing, kAck, 0, payload));
      break;
    case FrameType::kGoAway:
      received_.go_away = true;
      break;
    case FrameType::kWindowUpdate:
      if (payload.size() != 4) break;
      (stream == 0 ? window_ : moved_[stream]) += NumberAt(payload, 0, 4);
      break;
    default:
      break;
  }
}

void Peer::ApplySettings(std::string_view payload) {
  for (size_t at = 0; at + 6 <= payload.size(); at += 6) {
    if (NumberAt(payload, at, 2) == kInitialWindowSetting) {
      initial_window_ = NumberAt(payload, at + 2, 4);
    }
  }
}

void Peer::Answer(const std::string& frames) {
  if (options_.answers && out_.size() < kMostAnswers) out_ += frames;
}

}  // namespace mnemon::wire
