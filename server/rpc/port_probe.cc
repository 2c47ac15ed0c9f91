// SPDX-License-Identifier: MIT
#include "server/rpc/port_probe.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/strings.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/transport/peer_text.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{500};

socklen_t SizeOf(const sockaddr_storage& address) {
  return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

absl::Status Fault(const char* what, int error) {
  const bool out = error == EMFILE || error == ENFILE || error == ENOBUFS;
  return absl::Status(
      out ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
      StrCat(what, ": ", std::strerror(error)));
}

// Connects from the address that is connected to. Tells `expect` the peer that the
// server will see before it accepts.
absl::StatusOr<Descriptor> Connect(const sockaddr_storage& address,
                                   absl::FunctionRef<void(const std::string&)> expect) {
  Descriptor fd(
      socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Fault("socket", errno);
  sockaddr_storage from = address;
  const uint16_t any = 0;
  // The port is at the same place in both families.
  std::memcpy(reinterpret_cast<char*>(&from) + offsetof(sockaddr_in, sin_port), &any,
              sizeof(any));
  socklen_t size = SizeOf(from);
  auto* const raw = reinterpret_cast<sockaddr*>(&from);
  if (bind(fd.get(), raw, size) != 0 || getsockname(fd.get(), raw, &size) != 0) {
    return Fault("bind", errno);
  }
  expect(PeerText(from));
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd.get(), to, SizeOf(address)) == 0) return fd;
  if (errno != EINPROGRESS) return Fault("connect", errno);
  pollfd ready = {.fd = fd.get(), .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, static_cast<int>(kConnectTimeout.count())) <= 0) {
    return absl::UnavailableError("connect: no answer in time");
  }
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return Fault("connect", error);
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PortProbe>> PortProbe::Start(
    const sockaddr_storage& address, ConnectionTable& table, const Options& options) {
  std::unique_ptr<PortProbe> probe(new PortProbe(address, table, options));
  try {
    probe->thread_ = std::thread([&one = *probe] { one.Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        StrCat("no thread to probe the port: ", error.what()));
  }
  return probe;
}

PortProbe::PortProbe(const sockaddr_storage& address, ConnectionTable& table,
                     const Options& options)
    : address_(address), table_(table), options_(options) {}

void PortProbe::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (attempt_ != nullptr) attempt_->TryCancel();
  }
  stop_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::string PortProbe::WhyUnreachable() const {
  std::lock_guard lock(mutex_);
  return why_;
}

void PortProbe::Run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (stop_.wait_for(lock, options_.period, [this] { return stopping_; })) return;
    }
    try {
      Record(Attempt());
    } catch (const std::exception& error) {
      LogEvent(LogLevel::kError, "port_probe", {{"exception", error.what()}});
    }
  }
}

absl::Status PortProbe::Attempt() {
  std::string peer;
  const absl::Cleanup forget = [&] {
    if (!peer.empty()) table_.StopExpecting(peer);
  };
  absl::StatusOr<Descriptor> fd = Connect(address_, [&](const std::string& own) {
    peer = own;
    table_.Expect(peer);
  });
  if (!fd.ok()) return fd.status();
  grpc::ChannelArguments arguments;
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomInsecureChannelFromFd("own-port", fd->Release(), arguments);
  const auto health = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options_.timeout);
  if (!SetAttempt(&context)) return absl::CancelledError();
  grpc::health::v1::HealthCheckResponse answer;
  const grpc::Status status = health->Check(&context, {}, &answer);
  SetAttempt(nullptr);
  if (status.ok()) return absl::OkStatus();
  return absl::UnavailableError(StrCat("health check: ", status.error_message()));
}

bool PortProbe::SetAttempt(grpc::ClientContext* context) {
  std::lock_guard lock(mutex_);
  // Stop may be called again, when the context has gone.
  attempt_ = stopping_ ? nullptr : context;
  return !stopping_;
}

void PortProbe::Record(const absl::Status& status) {
  if (status.ok()) {
    if (failures_ >= options_.unreachable_after) LogInfo("own port answers again");
    failures_ = hopeless_ = 0;
    std::lock_guard lock(mutex_);
    why_.clear();
    return;
  }
  ++failures_;
  if (!absl::IsResourceExhausted(status)) ++hopeless_;
  if (failures_ < options_.unreachable_after) return;
  std::string why = StrCat("own port does not answer: ", status.message());
  LogEvent(
      LogLevel::kError, "port_unreachable",
      {{"failures", int64_t{failures_}}, {"error", std::string(status.message())}});
  {
    std::lock_guard lock(mutex_);
    why_ = why;
  }
  if (hopeless_ >= options_.give_up_after) {
    if (options_.give_up) options_.give_up(why);
  } else if (failures_ % options_.unreachable_after == 0 && options_.reopen) {
    options_.reopen();
  }
}

}  // namespace mnemon
