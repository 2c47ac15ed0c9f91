// SPDX-License-Identifier: MIT
#include "server/rpc/request_ids.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <mutex>
#include <random>
#include <unordered_map>

#include "absl/strings/str_format.h"

namespace mnemon {
namespace {

constexpr size_t kMaxRequestId = 64;

struct Open {
  std::mutex mutex;
  std::unordered_map<const grpc::ServerContextBase*, std::string> ids;  // guarded
};

// Never destroyed: calls may end while the process does.
Open& OpenIds() {
  static Open* open = new Open;
  return *open;
}

// Different for each call of this process, unlike those of another with high odds.
std::string NextId() {
  static const uint64_t start = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }();
  static std::atomic<uint64_t> count{0};
  // Odd multiplier: distinct counts give distinct ids.
  const uint64_t id =
      start + count.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b97f4a7c15;
  return absl::StrFormat("%016x", id);
}

}  // namespace

std::string ChooseRequestId(std::string_view sent) {
  const bool usable = !sent.empty() && sent.size() <= kMaxRequestId &&
                      std::all_of(sent.begin(), sent.end(), [](unsigned char c) {
                        return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                      });
  return usable ? std::string(sent) : NextId();
}

void RememberRequestId(const grpc::ServerContextBase* context, const std::string& id) {
  Open& open = OpenIds();
  std::lock_guard lock(open.mutex);
  open.ids[context] = id;
}

void ForgetRequestId(const grpc::ServerContextBase* context) {
  Open& open = OpenIds();
  std::lock_guard lock(open.mutex);
  open.ids.erase(context);
}

std::string RequestIdOf(const grpc::ServerContextBase* context) {
  Open& open = OpenIds();
  std::lock_guard lock(open.mutex);
  const auto found = open.ids.find(context);
  return found == open.ids.end() ? "" : found->second;
}

}  // namespace mnemon
