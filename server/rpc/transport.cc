// SPDX-License-Identifier: MIT
#include "server/rpc/transport.h"

#include <sched.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/transport/peer_text.h"

namespace mnemon {
namespace {

using nlohmann::json;

// Forgets ended connections when so many are known.
constexpr size_t kMostKnown = 1 << 16;
// gRPC gives out an id some time before the socket can be found.
constexpr int64_t kLateSockets = 1000;

// Takes `text`, which gRPC has allocated; no object when there is none.
json Parse(char* text) {
  const std::unique_ptr<char, decltype(&gpr_free)> owner(text, &gpr_free);
  return text == nullptr ? json() : json::parse(text, nullptr, false);
}

// The member `key`; null when there is none.
json Member(const json& object, const char* key) {
  return object.is_object() ? object.value(key, json()) : json();
}

// Whole numbers are texts there, absent when 0.
int64_t Number(const json& object, const char* key) {
  const json text = Member(object, key);
  int64_t number = 0;
  if (text.is_string()) (void)absl::SimpleAtoi(text.get<std::string>(), &number);
  return number;
}

constexpr int kPollThreads = 16;
constexpr int64_t kMostConnections = 32768;
// A client may open as many calls again while the cancelled ones before them end.
constexpr int64_t kCallsPerStream = 2;
// Calls at once in all, as a multiple of those of one connection.
constexpr int64_t kConnectionsFull = 8;
constexpr int64_t kShareOfConnection = 4;
// For a connection to end once it is shut down.
constexpr std::chrono::milliseconds kEnding{1000};

int64_t ConnectionLimit(const RpcOptions& options) {
  if (options.max_connections > 0) return options.max_connections;
  return std::min(kMostConnections,
                  ConnectionsFor(DescriptorLimit(), OpenDescriptors()));
}

int64_t CallsPerConnection(const RpcOptions& options) {
  return kCallsPerStream * options.max_concurrent_streams;
}

TrafficLimits Limits(const RpcOptions& options) {
  return {.message_bytes = options.max_message_bytes,
          .streams = CallsPerConnection(options),
          .connection_bytes = std::max(options.max_bytes_in_flight / kShareOfConnection,
                                       2 * options.max_message_bytes)};
}

}  // namespace

std::optional<StreamCounts> StreamCountReader::Read(const std::string& peer) {
  if (!sockets_.contains(peer)) FindNewSockets();
  const auto known = sockets_.find(peer);
  if (known == sockets_.end()) return std::nullopt;
  const json socket = Member(Parse(grpc_channelz_get_socket(known->second)), "socket");
  if (!socket.is_object()) {
    sockets_.erase(known);
    return std::nullopt;
  }
  const json data = Member(socket, "data");
  return StreamCounts{
      .started = Number(data, "streamsStarted"),
      .ended = Number(data, "streamsSucceeded") + Number(data, "streamsFailed")};
}

void StreamCountReader::FindNewSockets() {
  if (sockets_.size() > kMostKnown) {
    sockets_.clear();
    next_socket_ = 0;
  }
  int64_t newest = next_socket_;
  for (const json& server : Member(Parse(grpc_channelz_get_servers(0)), "server")) {
    const int64_t id = Number(Member(server, "ref"), "serverId");
    int64_t from = next_socket_;
    for (bool more = true; more;) {
      const json page = Parse(grpc_channelz_get_server_sockets(id, from, 0));
      const int64_t before = from;
      for (const json& ref : Member(page, "socketRef")) {
        const int64_t socket = Number(ref, "socketId");
        from = std::max(from, socket + 1);
        const json name = Member(ref, "name");
        if (!name.is_string()) continue;
        // "chttp2 ipv4:127.0.0.1:40312"
        const std::string_view text = name.get_ref<const std::string&>();
        const std::string peer = PeerText(text.substr(text.rfind(' ') + 1));
        if (!peer.empty()) sockets_.insert_or_assign(peer, socket);
      }
      more = from > before && Member(page, "end").is_null();
    }
    newest = std::max(newest, from);
  }
  next_socket_ = std::max(next_socket_, newest - kLateSockets);
}

void PollThreads::AddTo(grpc::ServerBuilder& builder) {
  queue_ = builder.AddCompletionQueue();
}

absl::Status PollThreads::Start() {
  try {
    for (int i = 0; i < kPollThreads; ++i) threads_.emplace_back([this] { Poll(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        StrCat("no thread to read connections: ", error.what()));
  }
  return absl::OkStatus();
}

void PollThreads::Run(std::function<void()> task) {
  auto entry = std::make_unique<grpc::Alarm>();
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  grpc::Alarm& alarm = *entry;
  // Due at once; the thread that takes it out of the queue destroys it.
  alarm.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), entry.release());
}

void PollThreads::Poll() {
  // What arrives does not interrupt a step, which all threads of a team wait for.
  const sched_param none = {};
  sched_setscheduler(0, SCHED_BATCH, &none);
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    delete static_cast<grpc::Alarm*>(tag);
    std::unique_lock lock(mutex_);
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
  }
}

void PollThreads::Stop() {
  if (queue_ == nullptr) return;
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  // It has to be empty before it goes; without threads nothing has emptied it.
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) delete static_cast<grpc::Alarm*>(tag);
  queue_.reset();
  tasks_.clear();
}

absl::StatusOr<std::unique_ptr<Transport>> Transport::Open(const ListenAddress& address,
                                                           const RpcOptions& options) {
  std::unique_ptr<Transport> transport(new Transport(options));
  MNEMON_ASSIGN_OR_RETURN(
      transport->listener_,
      Listener::Open(address, transport->table_,
                     {.traffic = Limits(options),
                      .calls_per_connection = CallsPerConnection(options)}));
  return transport;
}

Transport::Transport(const RpcOptions& options)
    : options_(options),
      table_(ConnectionLimit(options), (ConnectionLimit(options) + 1) / 2),
      watch_(table_,
             {.limits = Limits(options),
              .most_in_flight = options.max_bytes_in_flight,
              .most_calls = kConnectionsFull * CallsPerConnection(options)},
             [reader = std::make_shared<StreamCountReader>()](const std::string& peer) {
               return reader->Read(peer);
             }) {}

void Transport::AddTo(grpc::ServerBuilder& builder) {
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Type::FROM_FD, grpc::InsecureServerCredentials());
  poll_threads_.AddTo(builder);
}

absl::Status Transport::Start() {
  MNEMON_RETURN_IF_ERROR(poll_threads_.Start());
  MNEMON_RETURN_IF_ERROR(watch_.Start());
  MNEMON_RETURN_IF_ERROR(listener_->Start([this](Descriptor accepted) {
    // Not on a listener's thread: gRPC may go on to read the connection.
    auto owner = std::make_shared<Descriptor>(std::move(accepted));
    poll_threads_.Run([this, owner] { HandOver(std::move(*owner)); });
  }));
  MNEMON_ASSIGN_OR_RETURN(probe_,
                          PortProbe::Start(listener_->own_address(), table_,
                                           {.reopen = [this] { listener_->Reopen(); },
                                            .give_up = options_.on_unreachable}));
  return absl::OkStatus();
}

void Transport::HandOver(Descriptor accepted) {
  {
    std::lock_guard lock(mutex_);
    // The watch shuts it down with all others.
    if (!accepting_) return;
    ++handing_over_;
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = accepted.Release();
  acceptor_->HandleNewConnection(&connection);
  std::lock_guard lock(mutex_);
  if (--handing_over_ == 0) handed_over_.notify_all();
}

void Transport::StopAccepting(std::chrono::milliseconds left) {
  if (probe_ != nullptr) probe_->Stop();
  listener_->StopAccepting();
  watch_.ShutDownAllAt(std::chrono::steady_clock::now() + left);
  std::unique_lock lock(mutex_);
  accepting_ = false;
  // One that is still read is shut down with the others.
  handed_over_.wait_for(lock, left + kEnding, [this] { return handing_over_ == 0; });
}

std::string Transport::WhyUnreachable() const {
  return probe_ == nullptr ? "" : probe_->WhyUnreachable();
}

}  // namespace mnemon
