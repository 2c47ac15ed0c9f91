// SPDX-License-Identifier: MIT
#include "bench/wire/attack.h"

namespace mnemon::wire {
namespace {

constexpr Attack kAttacks[] = {
    {"resets", "calls reset as soon as their headers are sent", ResetHeaders},
    {"call-resets", "whole calls, each reset at once", ResetCalls},
    {"headers", "a header field of 64 MB on each of 32 connections", SendLongHeaders},
    {"many-headers", "header fields without end", SendManyHeaders},
    {"continuations", "headers that empty CONTINUATION frames keep open",
     SendEmptyContinuations},
    {"pings", "PING frames without end", SendPings},
    {"ping-acks", "answers to PING frames that nobody sent", SendPingAcks},
    {"settings", "SETTINGS frames without end", SendSettings},
    {"priorities", "PRIORITY frames without end", SendPriorities},
    {"window-updates", "WINDOW_UPDATE frames without end", SendWindowUpdates},
    {"empty-data", "a message that empty DATA frames keep open", SendEmptyData},
    {"messages", "400 messages of 4 MiB, but for the last byte",
     LeaveMessagesUnfinished},
    {"prompts", "330 prompts of a million tokens", SendLongPrompts, false},
    {"connections",
     "thousands of connections that are silent, slow, of other protocols, or junk",
     HoldConnections},
    {"descriptors", "connections until the server has no descriptor left",
     TakeAllDescriptors, false, 256},
    {"windows", "streams whose windows stay shut", KeepWindowsShut, false},
    {"malformed", "calls with impossible headers and encodings", SendMalformedCalls},
    {"goaway", "connections that end in the middle of their streams",
     GoAwayInMidStream},
};

}  // namespace

std::span<const Attack> Attacks() { return kAttacks; }

}  // namespace mnemon::wire
