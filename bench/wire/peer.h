// SPDX-License-Identifier: MIT
// Client end of an HTTP/2 connection at the level of frames: it sends any bytes, and
// parses answers as far as a flood needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bench/wire/frames.h"
#include "bench/wire/socket.h"

namespace mnemon::wire {

// Counts of what the server has sent.
struct Received {
  int64_t bytes = 0;
  int64_t frames = 0;
  int64_t data_bytes = 0;
  int64_t headers = 0;  // HEADERS frames
  int64_t ended = 0;    // streams that it ended, by END_STREAM or RST_STREAM
  int64_t resets = 0;   // by RST_STREAM
  bool go_away = false;
};

struct PeerOptions {
  // Answers SETTINGS and PING, and returns the windows of received data.
  bool answers = true;
};

// Used by one thread.
class Peer {
 public:
  Peer(int port, const std::string& source, TimePoint deadline,
       const PeerOptions& options = {});

  // False once the server has closed the connection.
  bool open() const { return socket_.open(); }
  const Received& received() const { return received_; }

  // Sends the preface and empty SETTINGS.
  bool Start(TimePoint deadline);
  // Sends `bytes`, and reads meanwhile. False if the server has closed the connection,
  // or has not taken all earlier bytes until `deadline`; the rest of `bytes` goes out
  // with the next call.
  bool Send(std::string_view bytes, TimePoint deadline);
  // Sends the beginning of `bytes` as DATA, limited by the windows and 64 KiB; returns
  // its length.
  size_t SendData(uint32_t stream, std::string_view bytes, TimePoint deadline);
  // Reads and answers until something has arrived, or until `deadline`.
  void Read(TimePoint deadline);
  // Closes the connection without sending or reading.
  void Close() { socket_.Close(); }

 private:
  void Flush();
  void ReceiveAll();
  void Parse();
  void Handle(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload);
  void ApplySettings(std::string_view payload);
  void Answer(const std::string& frames);

  Socket socket_;
  const PeerOptions options_;
  std::string out_;  // to be sent; whole frames after the first
  std::string in_;   // received, not parsed
  Received received_;
  // Limits on what may be sent.
  int64_t initial_window_ = kFirstWindow;
  int64_t window_ = kFirstWindow;
  std::unordered_map<uint32_t, int64_t> moved_;  // per stream, beyond the initial one
};

}  // namespace mnemon::wire
