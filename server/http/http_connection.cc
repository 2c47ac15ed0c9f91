// SPDX-License-Identifier: MIT
#include "server/http/http_connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "base/log.h"
#include "base/strings.h"

namespace mnemon {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr size_t kMaxHeader = 16384;
constexpr size_t kReadSize = 4096;
// Time that the peer has to close after its answer.
constexpr milliseconds kLinger{1000};
// Bytes after a request; a peer that sends more counts as gone.
constexpr int64_t kMostDropped = 65536;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// Bytes of a response in parts that the kernel may hold for the peer, and those of them
// that it has not sent. The kernel doubles the first for its own records, and without a
// bound would take megabytes for a peer that stops reading.
constexpr int kSendBuffer = 64 << 10;
constexpr int kUnsent = 16 << 10;

void BoundUntaken(int fd) {
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof(kSendBuffer));
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsent, sizeof(kUnsent));
}

// The peer sent something that is not a request.
bool IsMalformed(error_code error) {
  return error.category() == make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

// An error in the form of the HTTP API. The texts need no escapes.
HttpResponse HeadRefusal(int code, const char* reason, const std::string& message) {
  const char* const status = code == 500   ? "INTERNAL"
                             : code == 501 ? "UNIMPLEMENTED"
                                           : "INVALID_ARGUMENT";
  return {
      .code = code,
      .type = "application/json",
      .body = StrCat(R"({"error":{"code":")", reason, R"(","message":")", message,
                     R"(","param":null,"status":")", status, R"(","type":")",
                     code == 500 ? "server_error" : "invalid_request_error", "\"}}\n")};
}

template <class Text>
std::string ToString(const Text& text) {
  return {text.data(), text.size()};
}

}  // namespace

void LogHttpFailure(const std::exception& error) noexcept {
  try {
    LogEvent(LogLevel::kError, "http", {{"exception", error.what()}});
  } catch (const std::exception&) {
  }
}

HttpConnection::HttpConnection(Socket socket, const HttpOptions& options,
                               const HttpHandler& handler, std::atomic<int>& admitted,
                               std::function<void(HttpConnection*)> on_close)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      options_(options),
      handler_(handler),
      all_admitted_(admitted),
      on_close_(std::move(on_close)),
      time_limit_(SteadyClock::now() + options.timeout),
      buffer_(kMaxHeader + kReadSize) {
  parser_.header_limit(kMaxHeader);
  // A body is not read unless ReadBody says how much of it.
  parser_.body_limit(std::numeric_limits<uint64_t>::max());
}

HttpConnection::~HttpConnection() { Leave(); }

void HttpConnection::Start() {
  CloseAt(time_limit_);
  ReadHead();
}

int64_t HttpConnection::ArrivingBytes(Time now) const {
  return arriving_ && pace_.Kept(now) ? arrived_bytes_ : 0;
}

void HttpConnection::CountArrived(size_t bytes) {
  arrived_bytes_ += static_cast<int64_t>(bytes);
  pace_.Note(arrived_bytes_, SteadyClock::now());
}

void HttpConnection::Close() {
  if (closed_.exchange(true)) return;
  error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  Leave();
  written_ = nullptr;
  if (const auto on_close = std::exchange(on_close_, nullptr)) on_close(this);
  // Last: memory may run out in it.
  if (const auto gone = std::exchange(gone_, nullptr)) gone();
}

void HttpConnection::Leave() {
  if (admitted_.exchange(false)) --all_admitted_;
}

template <class Action>
void HttpConnection::Post(Action action) {
  if (closed_) return;
  boost::asio::dispatch(socket_.get_executor(), [self = shared_from_this(),
                                                 action = std::move(action)]() mutable {
    if (self->closed_) return;
    try {
      action(*self);
    } catch (const std::exception& error) {
      LogHttpFailure(error);
      self->Close();
    }
  });
}

template <class Next>
auto HttpConnection::OrClose(Next next) {
  return [self = shared_from_this(), next = std::move(next)](error_code error,
                                                             size_t bytes) mutable {
    if (error) return self->Close();
    next(*self, bytes);
  };
}

template <class Next>
void HttpConnection::ReadSome(Next next) {
  socket_.async_read_some(buffer_.prepare(kReadSize), OrClose(std::move(next)));
}

void HttpConnection::CloseAt(Time time) {
  timer_.expires_at(time);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    // A wait that was over when the timer was set again still gets here.
    if (!error && self->timer_.expiry() <= SteadyClock::now()) self->Close();
  });
}

void HttpConnection::CloseUnlessTaken() {
  taken_bytes_ = ReadSocket(socket_.native_handle()).acked_bytes;
  timer_.expires_at(SteadyClock::now() + options_.write_timeout);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->timer_.expiry() > SteadyClock::now()) return;
    const int64_t taken = ReadSocket(self->socket_.native_handle()).acked_bytes;
    if (taken > self->taken_bytes_) return self->CloseUnlessTaken();
    self->Close();
  });
}

void HttpConnection::ReadHead() {
  ReadSome([](HttpConnection& self, size_t bytes) {
    self.buffer_.commit(bytes);
    self.CountArrived(bytes);
    self.OnHeadBytes();
  });
}

void HttpConnection::OnHeadBytes() {
  const auto bytes = buffer_.data();
  const std::string_view text(static_cast<const char*>(bytes.data()), bytes.size());
  const size_t size = head_end_.Find(text);
  const auto refuse = [this](int code, const char* reason, const std::string& why) {
    WriteWhole(HeadRefusal(code, reason, why));
  };
  if (head_end_.broken()) {
    return refuse(400, "MALFORMED_REQUEST", "a line of the header must end in CR LF");
  }
  if (size == std::string_view::npos && text.size() < kMaxHeader) return ReadHead();
  if (size > kMaxHeader) {
    return refuse(431, "HEADER_TOO_LARGE", "a header has at most 16 KiB");
  }
  if (const auto fault = CheckHead(text.substr(0, size))) {
    return refuse(fault->code, fault->reason, fault->message);
  }
  error_code error;
  buffer_.consume(parser_.put(bytes, error));
  if (error) {
    return refuse(400, "MALFORMED_REQUEST", "this is not a request of HTTP/1");
  }
  FillRequest();
  try {
    handler_(shared_from_this());
  } catch (const std::exception& failure) {
    LogHttpFailure(failure);
    WriteWhole(HeadRefusal(500, "INTERNAL", "failed"));
  }
}

void HttpConnection::FillRequest() {
  const auto& head = parser_.get();
  const auto target = head.target();
  const std::string_view whole = WithoutAuthority({target.data(), target.size()});
  const size_t query = whole.find('?');
  request_.method = ToString(head.method_string());
  request_.path = whole.substr(0, query);
  if (query != std::string_view::npos) request_.query = whole.substr(query + 1);
  for (const auto& field : head) {
    request_.headers.push_back(
        {.name = ToString(field.name_string()), .value = ToString(field.value())});
  }
  chunked_ = head.version() >= 11;
}

void HttpConnection::ReadBody(int64_t limit, BodyEvents given) {
  Post([limit, events = std::move(given)](HttpConnection& self) mutable {
    const auto length = self.parser_.content_length();
    if (length && *length > static_cast<uint64_t>(limit)) {
      return self.WriteWhole(events.refuse(413));
    }
    self.parser_.body_limit(static_cast<uint64_t>(limit));
    // HTTP/1.0 does not have it.
    if (self.chunked_ && self.buffer_.size() == 0 &&
        http::token_list(self.parser_.get()[http::field::expect])
            .exists("100-continue")) {
      return boost::asio::async_write(
          self.socket_, boost::asio::buffer(kContinue.data(), kContinue.size()),
          self.OrClose(
              [events = std::move(events)](HttpConnection& connection, size_t) mutable {
                connection.ContinueBody(std::move(events));
              }));
    }
    self.ContinueBody(std::move(events));
  });
}

void HttpConnection::ContinueBody(BodyEvents events) {
  if (!events.keep(static_cast<int64_t>(parser_.get().body().size()))) {
    return WriteWhole(events.refuse(429));
  }
  if (parser_.is_done()) {
    arriving_ = false;
    request_.body = std::move(parser_.get().body());
    // Not from within ReadBody.
    return boost::asio::post(socket_.get_executor(), [self = shared_from_this(),
                                                      done = std::move(events.done)] {
      if (!self->closed_) done();
    });
  }
  http::async_read_some(socket_, buffer_, parser_,
                        [self = shared_from_this(), events = std::move(events)](
                            error_code error, size_t bytes) mutable {
                          self->CountArrived(bytes);
                          if (error == http::error::body_limit) {
                            return self->WriteWhole(events.refuse(413));
                          }
                          if (IsMalformed(error))
                            return self->WriteWhole(events.refuse(400));
                          if (error) return self->Close();
                          self->ContinueBody(std::move(events));
                        });
}

bool HttpConnection::Admit(std::function<void()> gone) {
  int now = all_admitted_;
  do {
    if (now >= options_.most_admitted) return false;
  } while (!all_admitted_.compare_exchange_weak(now, now + 1));
  if (admitted_.exchange(true)) --all_admitted_;
  if (closed_) {
    Leave();
    gone();
    return true;
  }
  boost::asio::dispatch(socket_.get_executor(),
                        [self = shared_from_this(), gone = std::move(gone)]() mutable {
                          if (self->closed_) {
                            self->Leave();
                            return gone();
                          }
                          self->gone_ = std::move(gone);
                          // A wait that is over already sees that this is later.
                          self->timer_.expires_at(Time::max());
                          self->Watch();
                        });
  return true;
}

void HttpConnection::Watch() {
  buffer_.clear();
  ReadSome([](HttpConnection& self, size_t bytes) {
    self.dropped_bytes_ += static_cast<int64_t>(bytes);
    if (self.dropped_bytes_ > kMostDropped) return self.Close();
    self.Watch();
  });
}

void HttpConnection::SetHead(const HttpResponse& response) {
  response_.version(11);
  response_.result(static_cast<unsigned>(response.code));
  if (!response.type.empty()) response_.set(http::field::content_type, response.type);
  response_.set(http::field::cache_control, "no-store");
  response_.set("X-Content-Type-Options", "nosniff");
  for (const HttpHeader& header : response.headers) {
    response_.set(header.name, header.value);
  }
  response_.keep_alive(false);
}

void HttpConnection::Respond(HttpResponse response) {
  Post([response = std::move(response)](HttpConnection& self) {
    self.WriteWhole(response);
  });
}

void HttpConnection::WriteWhole(const HttpResponse& response) {
  SetHead(response);
  if (response.code != 204) response_.content_length(response.body.size());
  if (request_.method != "HEAD") response_.body() = response.body;
  gone_ = nullptr;
  arriving_ = false;
  if (admitted_) CloseUnlessTaken();
  http::async_write(socket_, response_,
                    OrClose([](HttpConnection& self, size_t) { self.Linger(); }));
}

void HttpConnection::Begin(HttpResponse head, std::function<void()> written) {
  Post([head = std::move(head),
        written = std::move(written)](HttpConnection& self) mutable {
    self.SetHead(head);
    if (self.chunked_) self.response_.chunked(true);
    self.written_ = std::move(written);
    self.part_ = std::move(head.body);
    self.serializer_.emplace(self.response_);
    BoundUntaken(self.socket_.native_handle());
    self.CloseUnlessTaken();
    http::async_write_header(self.socket_, *self.serializer_,
                             self.OrClose([](HttpConnection& begun, size_t) {
                               if (begun.part_.empty()) {
                                 return begun.OnPartWritten(/*last=*/false);
                               }
                               begun.Write(std::move(begun.part_));
                             }));
  });
}

template <class Buffers>
void HttpConnection::WritePart(const Buffers& buffers, bool last) {
  CloseUnlessTaken();
  boost::asio::async_write(
      socket_, buffers,
      OrClose([last](HttpConnection& self, size_t) { self.OnPartWritten(last); }));
}

void HttpConnection::Write(std::string part) {
  Post([part = std::move(part)](HttpConnection& self) mutable {
    self.part_ = std::move(part);
    const auto bytes = boost::asio::buffer(self.part_);
    if (self.chunked_) {
      self.WritePart(http::make_chunk(bytes), false);
    } else {
      self.WritePart(bytes, false);
    }
  });
}

void HttpConnection::OnPartWritten(bool last) {
  if (closed_) return;
  if (last) return Linger();
  timer_.expires_at(Time::max());
  if (written_) written_();
}

void HttpConnection::End() {
  Post([](HttpConnection& self) {
    self.gone_ = nullptr;
    self.written_ = nullptr;
    if (self.chunked_) {
      self.WritePart(http::make_chunk_last(), true);
    } else {
      self.Linger();
    }
  });
}

void HttpConnection::Abort() noexcept {
  try {
    Post([](HttpConnection& self) {
      self.gone_ = nullptr;
      self.Close();
    });
  } catch (const std::exception&) {
  }
}

void HttpConnection::Linger() {
  const bool watched = admitted_;
  Leave();
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  const Time soon = SteadyClock::now() + kLinger;
  CloseAt(watched ? soon : std::min(time_limit_, soon));
  // A watched peer still is.
  if (!watched) Drain();
}

void HttpConnection::Drain() {
  buffer_.clear();
  ReadSome([](HttpConnection& self, size_t) { self.Drain(); });
}

}  // namespace mnemon
