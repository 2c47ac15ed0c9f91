// SPDX-License-Identifier: MIT
// The attacks on a server's gRPC port: each one thread, bounded in connections, bytes
// and time, over loopback.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench/wire/socket.h"

namespace mnemon::wire {

struct AttackPlan {
  int port = 0;
  // The first three numbers of the source addresses of the connections.
  std::string source = "127.0.2";
  TimePoint until;
  // Messages of Generate, serialized.
  std::string short_call;    // a few tokens
  std::string long_prompt;   // a prompt of a million tokens
  std::string endless_call;  // as many tokens as the server lets it have
};

// Counts of an attack.
struct AttackTally {
  int64_t connections = 0;  // opened
  int64_t refused = 0;      // could not be opened
  int64_t cut = 0;          // closed by the server
  int64_t frames = 0;       // sent
  int64_t bytes = 0;        // sent, roughly
  int64_t ended = 0;        // streams that the server ended
};

struct Attack {
  const char* name;
  const char* summary;
  // Returns soon after `until`, with all its connections closed.
  void (*run)(const AttackPlan& plan, AttackTally& tally);
  // Others can start calls meanwhile, and models are ready.
  bool leaves_room = true;
  // Descriptors that its server gets; 0: as many as the system gives.
  int descriptors = 0;
};

// All of them.
std::span<const Attack> Attacks();

// Families of attacks, one file each.
void SendPings(const AttackPlan& plan, AttackTally& tally);
void SendPingAcks(const AttackPlan& plan, AttackTally& tally);
void SendSettings(const AttackPlan& plan, AttackTally& tally);
void SendPriorities(const AttackPlan& plan, AttackTally& tally);
void SendWindowUpdates(const AttackPlan& plan, AttackTally& tally);
void SendEmptyData(const AttackPlan& plan, AttackTally& tally);
void SendEmptyContinuations(const AttackPlan& plan, AttackTally& tally);

void ResetHeaders(const AttackPlan& plan, AttackTally& tally);
void ResetCalls(const AttackPlan& plan, AttackTally& tally);

void SendLongHeaders(const AttackPlan& plan, AttackTally& tally);
void SendManyHeaders(const AttackPlan& plan, AttackTally& tally);

void LeaveMessagesUnfinished(const AttackPlan& plan, AttackTally& tally);
void SendLongPrompts(const AttackPlan& plan, AttackTally& tally);

void HoldConnections(const AttackPlan& plan, AttackTally& tally);
void TakeAllDescriptors(const AttackPlan& plan, AttackTally& tally);

void KeepWindowsShut(const AttackPlan& plan, AttackTally& tally);

void SendMalformedCalls(const AttackPlan& plan, AttackTally& tally);
void GoAwayInMidStream(const AttackPlan& plan, AttackTally& tally);

}  // namespace mnemon::wire
