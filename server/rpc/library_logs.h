// SPDX-License-Identifier: MIT
#pragma once

namespace mnemon {

// Sends what protobuf and gRPC want to print through our log, in bounded volume:
// hostile input makes protobuf write a line per message. Process-wide; call again at
// will.
void InstallLibraryLogs();

}  // namespace mnemon
