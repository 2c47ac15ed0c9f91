// SPDX-License-Identifier: MIT
#include "server/rpc/library_logs.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <string_view>

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include "base/log.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr size_t kMaxLine = 300;

// The 1st, 2nd, 4th, 8th ... line of a library: enough to see that and how often.
void LogSome(std::atomic<uint64_t>& count, std::string_view library,
             std::string_view text) {
  const uint64_t n = count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!std::has_single_bit(n)) return;
  LogWarning(StrCat(library, " (message ", n, "): ", text.substr(0, kMaxLine)));
}

void OnProtobufLog(google::protobuf::LogLevel level, const char*, int,
                   const std::string& message) {
  static std::atomic<uint64_t> count{0};
  if (level >= google::protobuf::LOGLEVEL_WARNING) LogSome(count, "protobuf", message);
}

void OnGrpcLog(gpr_log_func_args* args) {
  static std::atomic<uint64_t> count{0};
  if (args->severity == GPR_LOG_SEVERITY_ERROR) LogSome(count, "gRPC", args->message);
}

}  // namespace

void InstallLibraryLogs() {
  google::protobuf::SetLogHandler(&OnProtobufLog);
  gpr_set_log_function(&OnGrpcLog);
}

}  // namespace mnemon
