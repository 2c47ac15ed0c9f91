// SPDX-License-Identifier: MIT
#include "tests/fuzz/frame_program.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "bench/wire/peer.h"

namespace mnemon::wire {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMostTime{2000};
constexpr milliseconds kAnswer{5};
constexpr milliseconds kPatience{200};
constexpr size_t kPeers = 4;
constexpr size_t kOperations = 256;
constexpr size_t kMostUnsent = 1 << 18;

class Program {
 public:
  Program(std::string_view bytes, int port, const std::string& source,
          const std::vector<FuzzCall>& calls)
      : bytes_(bytes), port_(port), source_(source), calls_(calls) {
    Connect();
  }

  void Run() {
    for (size_t i = 0; i < kOperations && !bytes_.empty() && Now() < end_; ++i) {
      const uint8_t byte = Byte();
      Do(byte % 16, byte / 16);
      if (line().unsent.size() > kMostUnsent) Send();
    }
    for (current_ = 0; current_ < lines_.size(); ++current_) Send();
    if (Now() < end_) lines_[0].peer->Read(Soon(kAnswer));
  }

 private:
  struct Line {
    std::unique_ptr<Peer> peer;
    std::string unsent;
    size_t piece = 0;     // bytes of one send; 0: all at once
    uint32_t stream = 0;  // the open one
    uint32_t next = 1;
  };

  static TimePoint Now() { return steady_clock::now(); }
  TimePoint Soon(milliseconds time) const {
    return std::min<TimePoint>(end_, Now() + time);
  }
  Line& line() { return lines_[current_]; }
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(bytes_[0]);
    bytes_.remove_prefix(1);
    return byte;
  }
  std::string_view Payload() {
    const size_t length = std::min<size_t>(Byte(), bytes_.size());
    const std::string_view payload = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    return payload;
  }
  const FuzzCall& CallOf(size_t n) const { return calls_[n % calls_.size()]; }

  void Connect() {
    lines_.push_back({.peer = std::make_unique<Peer>(port_, source_, Soon(kPatience))});
    current_ = lines_.size() - 1;
    // A program that begins with raw bytes has no preface.
    if (bytes_.empty() || static_cast<uint8_t>(bytes_[0]) % 16 != 7) {
      lines_.back().unsent = std::string(kPreface) + Settings({});
    }
  }

  void Send() {
    std::string bytes = std::exchange(line().unsent, {});
    const size_t piece = line().piece == 0 ? bytes.size() : line().piece;
    for (size_t at = 0; at < bytes.size() && Now() < end_; at += piece) {
      if (!line().peer->Send(bytes.substr(at, piece), Soon(kPatience))) return;
    }
  }

  void Open(size_t n, std::string_view more, bool in_continuations) {
    line().stream = std::exchange(line().next, line().next + 2);
    const std::string block = CallBlock(CallOf(n).path, more);
    if (!in_continuations) {
      line().unsent += Frame(FrameType::kHeaders, kEndHeaders, line().stream, block);
      return;
    }
    const size_t half = block.size() * (n + 1) / 17;
    line().unsent +=
        Frame(FrameType::kHeaders, 0, line().stream, block.substr(0, half)) +
        Frame(FrameType::kContinuation, 0, line().stream, {}) +
        Frame(FrameType::kContinuation, kEndHeaders, line().stream, block.substr(half));
  }

  void Control(size_t n) {
    const uint32_t stream = n % 2 == 0 ? 0 : line().stream;
    switch (n / 4) {
      case 0:
        line().unsent += Ping(n % 2);
        break;
      case 1:
        line().unsent += Settings({{Byte(), uint32_t{Byte()} << (2 * n)}});
        break;
      case 2:
        line().unsent += WindowUpdate(stream, uint32_t{Byte()} << (2 * n));
        break;
      default:
        line().unsent += Priority(stream);
    }
  }

  void AnyFrame() {
    const auto type = static_cast<FrameType>(Byte());
    const uint8_t flags = Byte(), stream = Byte();
    line().unsent += Frame(type, flags, stream, Payload());
  }

  void Do(int operation, size_t n) {
    std::string& out = line().unsent;
    switch (operation) {
      case 0:
        return AnyFrame();
      case 1:
        line().stream = std::exchange(line().next, line().next + 2);
        out += WholeCall(line().stream, CallOf(n).path, CallOf(n).message);
        return;
      case 2:
        return Open(n, {}, false);
      case 3:
        out += Frame(FrameType::kData, n % 2 == 0 ? kEndStream : 0, line().stream,
                     GrpcMessage(CallOf(n / 2).message));
        return;
      case 4:
        out += Frame(FrameType::kData, n % 2 == 0 ? 0 : kEndStream, line().stream,
                     Payload());
        return;
      case 5:
        out += Reset(line().stream);
        return;
      case 6:
        return Control(n);
      case 7:
        out += Payload();
        return;
      case 8:
        Send();
        return line().peer->Read(Soon(kAnswer));
      case 9:
        return Send();
      case 10:
        Send();
        line().piece = n;
        return;
      case 11:
        if (lines_.size() < kPeers) Connect();
        return;
      case 12:
        current_ = current_ > 0 ? current_ - 1 : lines_.size() - 1;
        return;
      case 13: {
        const std::string_view name = Payload();
        return Open(n, Literal(name, Payload()), false);
      }
      case 14:
        return Open(n, {}, true);
      default:
        out += GoAway();
    }
  }

  std::string_view bytes_;
  const int port_;
  const std::string source_;
  const std::vector<FuzzCall>& calls_;
  const TimePoint end_ = Now() + kMostTime;
  std::vector<Line> lines_;
  size_t current_ = 0;
};

}  // namespace

void RunFrameProgram(std::string_view program, int port, const std::string& source,
                     const std::vector<FuzzCall>& calls) {
  Program(program, port, source, calls).Run();
}

}  // namespace mnemon::wire
