// SPDX-License-Identifier: MIT
// Set-up of a process, its signals and its version.
#pragma once

#include <functional>
#include <string>

namespace mnemon {

// Ignores SIGPIPE and SIGXFSZ (a write beyond the file size limit then fails like any
// other) and raises the descriptor limit to its hard value. Disables absl::Mutex's
// deadlock detection, which Debian's build runs at every lock, even in release builds;
// gRPC uses absl::Mutex. Call first in main.
void InitProcess();

// Makes malloc return freed memory to the system sooner: few arenas, and large pieces
// mapped separately. For a process with peaks of load. Call before threads exist.
void ReturnFreedMemory();

// Receiver of SIGINT, SIGTERM and SIGHUP for the whole process, whatever threads exist:
// libraries start some before main. If the process was started with SIGHUP ignored
// (nohup), it stays ignored. At most one; make it before anything that takes time.
class SignalWaiter {
 public:
  SignalWaiter();
  // Waits for one of them and returns its number.
  int Wait();
  // Waits at most `timeout_ms`; 0 when none came.
  int WaitFor(int timeout_ms);
};

// Sends a state such as "READY=1" to the service manager that started this process, if
// any: the protocol of sd_notify(3).
void NotifyServiceManager(const std::string& state);

// "0.1.0" and "abcdef": filled by the build.
std::string Version();
std::string Commit();

// "mnemon-server 0.1.0 (commit abcdef, libtorch ..., gRPC ...)".
// `libraries` names what the calling binary links, e.g. "gRPC 1.51.1".
std::string VersionText(const std::string& binary, const std::string& libraries);

}  // namespace mnemon
