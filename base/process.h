// SPDX-License-Identifier: MIT
// The set-up of a process, its signals and its version.
#pragma once

#include <functional>
#include <string>

namespace mnemon {

// Ignores SIGPIPE and SIGXFSZ (a write beyond the file size limit then fails like any
// other) and raises the descriptor limit to its hard value. Disables absl::Mutex's
// deadlock detection, which Debian's build runs at every lock, in release builds too;
// gRPC uses absl::Mutex. Call it first in main.
void InitProcess();

// Makes malloc give freed memory back to the system sooner: few arenas, and large
// pieces mapped alone, whatever was freed before. For a process whose load comes in
// floods; call it before threads exist.
void ReturnFreedMemory();

// The receiver of SIGINT, SIGTERM and SIGHUP for the whole process, whatever threads
// exist: libraries start some before main. A SIGHUP that the process was started to
// ignore (nohup) stays ignored. At most one; make it before anything that takes time.
class SignalWaiter {
 public:
  SignalWaiter();
  // Waits for one of them and returns its number.
  int Wait();
  // Waits at most `timeout_ms`; 0 when none came.
  int WaitFor(int timeout_ms);
};

// Sends a state, e.g. "READY=1", to the service manager that started this process, if
// any: the protocol of sd_notify(3).
void NotifyServiceManager(const std::string& state);

// "0.1.0" and "abcdef": filled by the build.
std::string Version();
std::string Commit();

// "mnemon-server 0.1.0 (commit abcdef, libtorch ..., gRPC ...)".
// `libraries` names what the calling binary links, e.g. "gRPC 1.51.1".
std::string VersionText(const std::string& binary, const std::string& libraries);

}  // namespace mnemon
