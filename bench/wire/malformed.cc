// SPDX-License-Identifier: MIT
// Malformed calls: impossible pseudo-headers, encodings and details; and connections
// that end while their streams run.
#include <string>
#include <utility>
#include <vector>

#include "bench/wire/attacker.h"

namespace mnemon::wire {
namespace {

constexpr int kMalformedPeers = 4;  // connections
constexpr int kGoAwayPeers = 8;

std::string Block(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string block;
  for (const auto& [name, value] : fields) block += Literal(name, value);
  return block;
}

// Header blocks, each with one fault.
std::vector<std::string> WrongBlocks() {
  const std::string path = kGenerate;
  const std::string type = "application/grpc";
  return {
      // No te; another te; no scheme and strange schemes.
      Block({{":method", "POST"},
             {":scheme", "http"},
             {":path", path},
             {"content-type", type}}),
      Block({{":method", "POST"},
             {":scheme", "http"},
             {":path", path},
             {"content-type", type},
             {"te", "deflate"}}),
      Block({{":method", "POST"},
             {":path", path},
             {"content-type", type},
             {"te", "trailers"}}),
      Block({{":method", "POST"},
             {":scheme", "gopher"},
             {":path", path},
             {"content-type", type},
             {"te", "trailers"}}),
      Block({{":method", "POST"},
             {":scheme", "http"},
             {":scheme", "https"},
             {":path", path},
             {"te", "trailers"}}),
      // No path, an empty one, one of 8 KiB, no method, another method.
      Block({{":method", "POST"}, {":scheme", "http"}, {"te", "trailers"}}),
      CallBlock(""),
      CallBlock("/" + std::string(8000, 'x')),
      Block({{":scheme", "http"}, {":path", path}, {"te", "trailers"}}),
      Block({{":method", "BREW"}, {":scheme", "http"}, {":path", path}}),
      CallBlock("/mnemon.v1.Generation/Absent"),
      // Values that cannot be read.
      CallBlock(path, Literal("x-junk-bin", "!!not base64!!")),
      CallBlock(path, Literal("grpc-trace-bin", "=")),
      CallBlock(path, Literal("grpc-timeout", "never")),
      CallBlock(path, Literal("grpc-timeout", "99999999999999H")),
      CallBlock(path, Literal("grpc-encoding", "snappy")),
      CallBlock(path, Literal("content-encoding", "br")),
      CallBlock(path, Literal("x-request-id", std::string(4000, '\n'))),
      CallBlock(path, Literal("Upper-Case", "\x01\x02")),
      CallBlock(path, Literal("", "")),
      // Not HPACK: an index beyond all tables, a length without its bytes.
      "\xff\xff\xff\xff\x0f",
      std::string("\x00\x7f\xff\xff\xff\x0f", 6),
  };
}

}  // namespace

void SendMalformedCalls(const AttackPlan& plan, AttackTally& tally) {
  const std::vector<std::string> blocks = WrongBlocks();
  std::string compressed = GrpcMessage(plan.short_call);
  compressed[0] = 1;
  size_t turn = 0;
  RunByTurns(plan, tally, kMalformedPeers, {}, [&](Attacker& attacker) {
    const uint32_t stream = attacker.NextStream();
    const std::string& block = blocks[turn++ % blocks.size()];
    attacker.Send(Frame(FrameType::kHeaders, kEndHeaders, stream, block) +
                      Frame(FrameType::kData, kEndStream, stream,
                            turn % 2 == 0 ? compressed : GrpcMessage(plan.short_call)),
                  2);
    if (attacker.peer().open() && turn % 64 == 0) attacker.peer().Read(Soon(plan));
    if (!attacker.StreamsLeft()) attacker.Leave();
  });
}

void GoAwayInMidStream(const AttackPlan& plan, AttackTally& tally) {
  RunByTurns(plan, tally, kGoAwayPeers, {}, [&](Attacker& attacker) {
    for (int i = 0; i < 4; ++i) {
      attacker.Send(WholeCall(attacker.NextStream(), kGenerate, plan.endless_call), 2);
    }
    attacker.peer().Read(Soon(plan));
    if (!attacker.peer().open() || !attacker.Send(GoAway(), 1)) return;
    attacker.peer().Read(Soon(plan));
    attacker.Leave();
  });
}

}  // namespace mnemon::wire
