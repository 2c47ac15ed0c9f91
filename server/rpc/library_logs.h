// SPDX-License-Identifier: MIT
// The log output of protobuf and gRPC.
#pragma once

namespace mnemon {

// Routes it to our log, in bounded volume: hostile input makes protobuf write a line
// per message. Process-wide; idempotent.
void InstallLibraryLogs();

}  // namespace mnemon
