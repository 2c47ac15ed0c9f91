// SPDX-License-Identifier: MIT
// Interpreter of a fuzzer's bytes as actions of a client at the level of frames: valid
// calls and invalid frames, whole and in pieces, on several connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mnemon::wire {

// A method and a message that it takes.
struct FuzzCall {
  std::string path;
  std::string message;
};

// Runs `program` against 127.0.0.1:`port` from `source`, and closes all connections.
// Any bytes are a program, an empty one of nothing. Takes two seconds at most.
//
// An operation is a byte, whose lower half is the kind and whose upper half is a small
// number n; operands follow:
//   0 a frame: type, flags, stream, payload          8 waits for an answer
//   1 a whole call, the n-th                         9 sends all up to here
//   2 headers of the n-th call, the stream open     10 pieces of n bytes from here on
//   3 its message, and the end of the stream        11 another connection
//   4 DATA of the open stream: payload              12 back to the connection before
//   5 resets the open stream                        13 headers with a field: payload
//   6 PING, SETTINGS, WINDOW_UPDATE or PRIORITY     14 headers in CONTINUATION frames
//   7 raw bytes: payload                            15 GOAWAY
// A payload is its length, a byte, and then as many bytes, or those that are left.
void RunFrameProgram(std::string_view program, int port, const std::string& source,
                     const std::vector<FuzzCall>& calls);

}  // namespace mnemon::wire
