// SPDX-License-Identifier: MIT
// C++ client of a mnemon server. No protobuf type shows here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon::client {

struct ClientOptions {
  std::string server = "127.0.0.1:50051";
  std::chrono::milliseconds connect_timeout{5000};
  // For every call but Generate.
  std::chrono::milliseconds call_timeout{30000};
};

struct GenerateOptions {
  std::string model;    // may be empty when the server has one
  std::string session;  // empty: no memory is kept
  std::string text;     // prompt; or
  std::vector<int32_t> tokens;
  std::optional<int32_t> max_tokens;
  std::optional<double> temperature;
  std::optional<int32_t> top_k;
  std::optional<double> top_p;
  std::optional<uint64_t> seed;
  std::vector<int32_t> stop_tokens;
};

// One message of a stream.
struct GenerateChunk {
  std::string text;
  std::vector<int32_t> tokens;
  int64_t first_index = 0;
};

struct GenerateResult {
  std::string finish_reason;  // as in the proto, without prefix: "MAX_TOKENS"
  uint64_t seed = 0;
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  std::chrono::nanoseconds time_to_first_token{};
  std::chrono::nanoseconds total_time{};
};

struct SessionSummary {
  std::string id;
  std::string model;
  std::string state;  // "IDLE", "QUEUED", "RUNNING"
  int64_t position = 0;
  int64_t state_size_bytes = 0;
};

struct ModelSummary {
  std::string name;
  std::string architecture;
  std::string model_id;
  std::string numerics_id;
  std::string config_json;
  int64_t parameters = 0;
  std::optional<int64_t> context_limit;
};

// Safe for concurrent use. Errors are the server's statuses with their typed payload
// (base/error.h), decoded from the standard details.
class Client {
 public:
  static std::unique_ptr<Client> Connect(const ClientOptions& options);
  // "gRPC 1.51.1"
  static std::string LibraryVersion();
  virtual ~Client() = default;

  // Calls `on_chunk` for each message as it comes, on the calling thread; returning
  // false cancels the call, which then ends with CANCELLED. `on_chunk` does not throw.
  virtual absl::StatusOr<GenerateResult> Generate(
      const GenerateOptions& options,
      const std::function<bool(const GenerateChunk&)>& on_chunk) = 0;
  // Ends the Generate calls that run now with CANCELLED; from any thread.
  virtual void CancelGenerate() = 0;

  virtual absl::StatusOr<SessionSummary> CreateSession(const std::string& id,
                                                       const std::string& model) = 0;
  virtual absl::StatusOr<SessionSummary> GetSession(const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<SessionSummary>> ListSessions() = 0;
  virtual absl::Status DeleteSession(const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<ModelSummary>> ListModels() = 0;
  // OK when `service` is SERVING; UNAVAILABLE when not.
  virtual absl::Status CheckHealth(const std::string& service) = 0;
};

}  // namespace mnemon::client
