// SPDX-License-Identifier: MIT
// Malformed, large, slow and foreign requests to the HTTP API.
#include <malloc.h>

#include <random>
#include <thread>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/http_peer.h"
#include "tests/fakes/patience.h"
#include "tests/server/gateway/gateway_rig.h"

namespace mnemon {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGood[] = R"({"model":"toy","prompt":"abc","max_tokens":2,"seed":1,)"
                         R"("stop":["z"],"logit_bias":{"3":1.5},"stream":false})";

int64_t HeapBytes() {
  malloc_trim(0);
  return static_cast<int64_t>(mallinfo2().uordblks);
}

// What is wrong is changed at random: in the body, the header, or the whole request.
class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string Next() {
    static const std::vector<std::string> paths = {
        "/v1/completions", "/v1/chat/completions", "/v1/responses",
        "/v1/sessions",    "/v1/tokenize",         "/v1/sessions/a/fork",
        "/v1/detokenize",  "/v1/predict",          "/v1/sessions/a/generate"};
    std::string body = kGood;
    const std::string path = paths[Below(paths.size())];
    if (Below(4) > 0) Change(body);
    std::string request = GatewayRig::Request("POST", path, body);
    if (Below(4) == 0) Change(request);
    return request;
  }

 private:
  size_t Below(size_t end) { return random_() % end; }

  void Change(std::string& text) {
    static const std::vector<std::string> pieces = {"\"",
                                                    "{",
                                                    "}",
                                                    "[",
                                                    ":",
                                                    ",",
                                                    "null",
                                                    "1e999",
                                                    "-1",
                                                    "\\u0000",
                                                    "\xff",
                                                    "[[[[[[",
                                                    "9223372036854775808",
                                                    "{\"a\":",
                                                    "\r\n",
                                                    "\r\n\r\n",
                                                    "true",
                                                    std::string(1, '\0')};
    const size_t changes = 1 + Below(4);
    for (size_t i = 0; i < changes && !text.empty(); ++i) {
      const size_t at = Below(text.size());
      switch (Below(3)) {
        case 0:
          text.erase(at, 1 + Below(8));
          break;
        case 1:
          text.insert(at, pieces[Below(pieces.size())]);
          break;
        default:
          text[at] = static_cast<char>(Below(256));
      }
    }
  }

  std::mt19937 random_;
};

TEST(HostileHttp, AThousandMalformedRequestsGetTypedErrors) {
  HttpOptions fast;
  fast.timeout = milliseconds(150);  // of those that announce more than they send
  GatewayRig rig({}, {}, fast);
  Mutator mutator(20);
  int64_t before = 0;
  int errors = 0;
  for (int i = 0; i < 1000; ++i) {
    if (i == 100) before = HeapBytes();
    const std::string request = mutator.Next();
    const std::string raw = SendRaw(rig.port(), request);
    // An incomplete request is closed without an answer.
    if (raw.empty()) continue;
    const HttpAnswer answer = GatewayRig::ParseAnswer(raw);
    ASSERT_GE(answer.code, 200) << request << raw;
    ASSERT_LT(answer.code, 500) << request << raw;
    if (answer.code < 400) continue;
    ++errors;
    json body = json::parse(answer.body, nullptr, false);
    ASSERT_TRUE(body.is_object() && body.contains("error")) << request << raw;
    ASSERT_FALSE(body["error"]["code"].get<std::string>().empty()) << raw;
    ASSERT_FALSE(body["error"]["message"].get<std::string>().empty()) << raw;
  }
  EXPECT_GT(errors, 300);
  EXPECT_LT(HeapBytes() - before, 4 << 20);
  // On a busy machine its own time may also be over.
  EXPECT_TRUE(Eventually(
      [&] { return rig.Send("POST", "/v1/completions", kGood).code == 200; }));
}

TEST(HostileHttp, LargeBodiesAreRefused) {
  GatewayOptions options;
  options.max_body_bytes = 1000;
  options.max_bodies_bytes = 1500;
  GatewayRig rig({}, options);
  const std::string large(2000, 'x');
  const HttpAnswer answer = rig.Send("POST", "/v1/completions", large);
  EXPECT_EQ(answer.code, 413);
  EXPECT_THAT(answer.body, HasSubstr("BODY_TOO_LARGE"));
  // Without a length each chunk counts.
  const HttpAnswer chunked = GatewayRig::ParseAnswer(
      SendRaw(rig.port(), StrCat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n7d0\r\n",
                                 large, "\r\n0\r\n\r\n")));
  EXPECT_EQ(chunked.code, 413);
  // A body that is announced holds nothing.
  const std::string announced =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Length: 900\r\n\r\nx";
  std::deque<HttpPeer> silent;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(silent.emplace_back(rig.port()).Send(announced));
  }
  const std::string padded = kGood + std::string(700, ' ');
  const HttpAnswer beside = rig.Send("POST", "/v1/completions", padded);
  EXPECT_EQ(beside.code, 200) << beside.body;
  // What has come of one holds its part of the memory, until its time is over.
  HttpPeer slow(rig.port());
  ASSERT_TRUE(slow.Send(announced + std::string(800, ' ')));
  EXPECT_TRUE(Eventually([&] {
    const HttpAnswer other = rig.Send("POST", "/v1/completions", padded);
    return other.code == 429 && other.body.find("MEMORY_LIMIT") != std::string::npos;
  }));
}

TEST(HostileHttp, CodedBodiesAreRefused) {
  GatewayRig rig;
  const HttpAnswer coded =
      rig.Send("POST", "/v1/completions", kGood, "Content-Encoding: gzip\r\n");
  EXPECT_EQ(coded.code, 415);
  EXPECT_THAT(coded.body,
              ::testing::AllOf(HasSubstr("ENCODING_NOT_SUPPORTED"),
                               HasSubstr("Content-Encoding"), HasSubstr("gzip")));
  EXPECT_EQ(
      rig.Send("POST", "/v1/completions", kGood, "Content-Encoding: Identity\r\n").code,
      200);
}

TEST(HostileHttp, OldRequestsExpectNothing) {
  GatewayRig rig;
  const std::string body = R"({"text":"a"})";
  const std::string request =
      StrCat("Host: localhost\r\nExpect: 100-continue\r\nContent-Length: ", body.size(),
             "\r\n\r\n");
  HttpPeer old(rig.port());
  ASSERT_TRUE(old.Send(StrCat("POST /v1/tokenize HTTP/1.0\r\n", request)));
  ASSERT_TRUE(old.Send(body));
  EXPECT_TRUE(old.ReadToTheEnd().starts_with("HTTP/1.1 200"));
}

TEST(HostileHttp, TooManyCallsAreRefused) {
  HttpOptions few;
  few.most_admitted = 1;
  GatewayRig rig({}, {}, few);
  rig.rig.decoder.Allow(1);
  HttpPeer first(rig.port());
  json request = json::parse(kGood);
  request["stream"] = true;
  request["max_tokens"] = 100;
  ASSERT_TRUE(
      first.Send(GatewayRig::Request("POST", "/v1/completions", request.dump())));
  ASSERT_TRUE(first.ReadUntil("data: "));
  const HttpAnswer second = rig.Send("POST", "/v1/completions", kGood);
  EXPECT_EQ(second.code, 429);
  EXPECT_THAT(second.body, HasSubstr("CALL_LIMIT"));
  EXPECT_THAT(second.headers, HasSubstr("Retry-After: 1"));
}

TEST(HostileHttp, AReaderThatTakesNothingIsGone) {
  HttpOptions impatient;
  impatient.write_timeout = milliseconds(200);
  RigOptions many;
  many.engine.max_tokens = 1 << 20;
  many.append_capacity = 1 << 20;
  GatewayRig rig(many, {}, impatient);
  HttpPeer peer(rig.port(), 1024);
  json request = json::parse(kGood);
  request["stream"] = true;
  request["stop"] = nullptr;
  request["logprobs"] = 20;
  request["max_tokens"] = 1 << 19;
  ASSERT_TRUE(
      peer.Send(GatewayRig::Request("POST", "/v1/completions", request.dump())));
  ASSERT_TRUE(Eventually([&] { return rig.rig.engine->Stats().running == 1; }));
  EXPECT_TRUE(Eventually([&] { return rig.rig.engine->Stats().running == 0; }));
}

TEST(HostileHttp, ForeignPagesAndNamesAreRefused) {
  GatewayOptions options;
  options.origins = {"https://good.example"};
  GatewayRig rig({}, options);
  const auto get = [&](const std::string& headers) {
    return rig.Send("GET", "/v1/models", "", headers);
  };
  EXPECT_EQ(get("").code, 200);
  EXPECT_THAT(get("").headers, Not(HasSubstr("Access-Control")));
  EXPECT_EQ(get("Origin: http://localhost\r\n").code, 200);
  const HttpAnswer good = get("Origin: https://good.example\r\n");
  EXPECT_EQ(good.code, 200);
  EXPECT_THAT(good.headers,
              HasSubstr("Access-Control-Allow-Origin: https://good.example"));
  const HttpAnswer bad = get("Origin: https://bad.example\r\n");
  EXPECT_EQ(bad.code, 403);
  EXPECT_THAT(bad.body, HasSubstr("ORIGIN_NOT_ALLOWED"));
  const HttpAnswer preflight =
      rig.Send("OPTIONS", "/v1/completions", "", "Origin: https://good.example\r\n");
  EXPECT_EQ(preflight.code, 204);
  EXPECT_THAT(preflight.headers, HasSubstr("Access-Control-Allow-Methods"));
  EXPECT_EQ(rig.Send("OPTIONS", "/v1/completions", "", "Origin: null\r\n").code, 403);
  const HttpAnswer renamed = GatewayRig::ParseAnswer(
      SendRaw(rig.port(), "GET /v1/models HTTP/1.1\r\nHost: evil.example:80\r\n\r\n"));
  EXPECT_EQ(renamed.code, 403);
  EXPECT_THAT(renamed.body, HasSubstr("HOST_NOT_ALLOWED"));
}

// Each would be read in another way by another server.
TEST(HostileHttp, RequestsThatCanBeReadInTwoWaysAreRefused) {
  GatewayRig rig;
  const std::string length =
      StrCat("Content-Length: ", std::string(kGood).size(), "\r\n");
  const std::string chunk = StrCat(absl::StrFormat("%x", std::string(kGood).size()),
                                   "\r\n", kGood, "\r\n0\r\n\r\n");
  const std::string host = "Host: localhost\r\n";
  struct Case {
    std::string fields;
    std::string body;
    int code = 400;
  };
  const Case cases[] = {
      {host + "Transfer-Encoding: gzip, chunked\r\n", chunk, 501},
      {host + "Transfer-Encoding: chunked, identity\r\n", chunk},
      {host + "Transfer-Encoding: Chunked;x\r\n", chunk},
      {host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunk},
      {host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", chunk},
      {host + length + "Transfer-Encoding: chunked\r\n", chunk},
      {host + "Transfer-Encoding: chunked\r\n" + length, chunk},
      {host + "Transfer-Encoding : chunked\r\n", chunk},
      {host + "Transfer-Encoding:\r\n chunked\r\n", chunk},
      {host + length + length, kGood},
      {host + "Content-Length: +2\r\n", "{}"},
      {host + "Content-Length: 2, 2\r\n", "{}"},
      {host + host + length, kGood},
      {host + "Host: evil.example\r\n" + length, kGood},
      {length, kGood},
      {host + length + "Origin: http://localhost\r\nOrigin: http://evil\r\n", kGood},
      {host + length + "Origin: http://evil\r\nOrigin: http://localhost\r\n", kGood},
      {host + length + "Content-Type: a/b\r\nContent-Type: c/d\r\n", kGood},
      {host + length + "A: b\r\n c\r\n", kGood},
      {host + length + "A: b\rc\r\n", kGood},
      {host + length + "A: b\n", kGood},
      {host + length + "A B: c\r\n", kGood},
  };
  for (const Case& one : cases) {
    const std::string raw = SendRaw(
        rig.port(),
        StrCat("POST /v1/completions HTTP/1.1\r\n", one.fields, "\r\n", one.body));
    const HttpAnswer answer = GatewayRig::ParseAnswer(raw);
    EXPECT_EQ(answer.code, one.code) << one.fields << raw;
    EXPECT_THAT(answer.headers, HasSubstr("Connection: close")) << one.fields;
    json body = json::parse(answer.body, nullptr, false);
    ASSERT_TRUE(body.is_object()) << raw;
    EXPECT_EQ(body["error"]["code"],
              one.code == 501 ? "TRANSFER_CODING_UNKNOWN" : "MALFORMED_REQUEST")
        << one.fields << raw;
    EXPECT_GT(body["error"]["message"].get<std::string>().size(), 10u);
  }
  // Framed as it should be, and what is wrong is within the body.
  for (const char* const bad :
       {"0x2\r\n{}\r\n0\r\n\r\n", "+2\r\n{}\r\n0\r\n\r\n", "2\n{}\r\n0\r\n\r\n",
        "2 \r\n{}x\r\n0\r\n\r\n", "-1\r\n\r\n", "ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n"}) {
    const HttpAnswer answer = GatewayRig::ParseAnswer(
        SendRaw(rig.port(), StrCat("POST /v1/completions HTTP/1.1\r\n", host,
                                   "Transfer-Encoding: chunked\r\n\r\n", bad)));
    EXPECT_TRUE(answer.code == 400 || answer.code == 413) << bad << answer.code;
  }
  const auto target = [&](const std::string& text) {
    return GatewayRig::ParseAnswer(SendRaw(
        rig.port(), StrCat("GET ", text, " HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  };
  EXPECT_EQ(target("http://localhost/v1/models").code, 200);
  EXPECT_EQ(target("http://evil.example/v1/models").code, 400);
  EXPECT_EQ(target("https://localhost/v1/models").code, 400);
  EXPECT_EQ(rig.Send("POST", "/v1/completions", kGood).code, 200);
}

TEST(HostileHttp, BytesThatAreNoTextAreTheCallersFault) {
  GatewayRig rig;
  for (const char* const path : {"/v1/sessions?filter=%ff", "/v1/sessions/a\xff",
                                 "/v1/models/\xff", "/v1/sessions/\xff/history"}) {
    const HttpAnswer answer = rig.Send("GET", path, "");
    EXPECT_EQ(answer.code, 400) << path << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("INVALID_VALUE")) << path;
  }
  const HttpAnswer broken = rig.Send("POST", "/v1/completions", "{\"a\": \"\xff\"}");
  EXPECT_EQ(broken.code, 400);
  EXPECT_THAT(broken.body, HasSubstr("INVALID_JSON"));
}

TEST(HostileHttp, FormsOfHttp) {
  GatewayRig rig;
  const std::string body = kGood;
  HttpPeer waits(rig.port());
  ASSERT_TRUE(
      waits.Send(StrCat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                        "X-Request-Id: mine-1\r\nExpect: 100-continue\r\n"
                        "Content-Length: ",
                        body.size(), "\r\n\r\n")));
  ASSERT_TRUE(waits.ReadUntil("100 Continue"));
  ASSERT_TRUE(waits.Send(body));
  EXPECT_THAT(waits.ReadToTheEnd(),
              ::testing::AllOf(HasSubstr("200 OK"), HasSubstr("X-Request-Id: mine-1")));

  const std::string chunked =
      SendRaw(rig.port(), StrCat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n",
                                 absl::StrFormat("%x", body.size()), "\r\n", body,
                                 "\r\n0\r\n\r\n"));
  EXPECT_THAT(chunked, HasSubstr("200 OK"));

  json stream = json::parse(kGood);
  stream["stream"] = true;
  const std::string old =
      SendRaw(rig.port(), StrCat("POST /v1/completions HTTP/1.0\r\nContent-Length: ",
                                 stream.dump().size(), "\r\n\r\n", stream.dump()));
  EXPECT_THAT(old,
              ::testing::AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("data: [DONE]"),
                               Not(HasSubstr("chunked"))));

  const HttpAnswer head = rig.Send("HEAD", "/v1/models", "");
  EXPECT_EQ(head.code, 200);
  EXPECT_THAT(head.headers, HasSubstr("Content-Type: application/json"));
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(rig.Send("HEAD", "/v1/completions", "").code, 405);

  EXPECT_THAT(rig.Send("PUT", "/v1/models", "").headers, HasSubstr("Allow: GET"));
  EXPECT_THAT(
      rig.Send("OPTIONS", "/v1/models", "").headers,
      ::testing::AllOf(HasSubstr("Allow: GET"), Not(HasSubstr("Content-Length"))));
}

TEST(HostileHttp, AnErrorAfterTheBeginningEndsTheStream) {
  GatewayRig rig;
  rig.rig.decoder.Allow(3);
  json request = json::parse(kGood);
  request["stream"] = true;
  request["max_tokens"] = 100;
  request["stop"] = nullptr;
  HttpPeer peer(rig.port());
  ASSERT_TRUE(
      peer.Send(GatewayRig::Request("POST", "/v1/completions", request.dump())));
  ASSERT_TRUE(peer.ReadUntil("data: "));
  // As a drain without a grace, which waits for no step.
  std::thread shutdown([&] { rig.rig.server->Shutdown(milliseconds(0)); });
  const std::string rest = peer.ReadToTheEnd();
  rig.rig.decoder.AllowAll();
  shutdown.join();
  EXPECT_THAT(rest, HasSubstr("DRAINING"));
  EXPECT_THAT(rest, Not(HasSubstr("[DONE]")));
  EXPECT_THAT(rest, HasSubstr("\r\n0\r\n\r\n"));
}

TEST(HostileHttp, ADrainLetsAnswersOut) {
  GatewayRig rig;
  rig.rig.decoder.Allow(1);
  HttpPeer peer(rig.port());
  ASSERT_TRUE(peer.Send(GatewayRig::Request("POST", "/v1/completions", kGood)));
  ASSERT_TRUE(Eventually([&] { return rig.rig.engine->Stats().running == 1; }));
  std::thread shutdown([&] { rig.rig.server->Shutdown(kPatience); });
  rig.rig.decoder.AllowAll();
  shutdown.join();
  EXPECT_TRUE(rig.http->AwaitAnswers(kPatience));
  rig.http->Stop();
  EXPECT_THAT(peer.ReadToTheEnd(), HasSubstr("\"choices\""));
}

TEST(HostileHttp, AHalfBodyOutlivesNothing) {
  auto rig = std::make_unique<GatewayRig>();
  HttpPeer peer(rig->port());
  ASSERT_TRUE(
      peer.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Length: 900\r\n\r\nx"));
  EXPECT_EQ(rig->Send("GET", "/v1/models", "").code, 200);
  rig.reset();
  EXPECT_EQ(peer.ReadToTheEnd(), "");
}

TEST(HostileHttp, ALargeAnswerIsAStreamOrNone) {
  GatewayOptions little;
  little.max_body_bytes = 4000;
  little.max_bodies_bytes = 200'000;
  GatewayRig rig({}, little);
  json request = json::parse(kGood);
  request["max_tokens"] = 900;
  request["stop"] = nullptr;
  request["logprobs"] = 20;
  JsonAnswer whole = rig.Post("/v1/completions", request);
  EXPECT_EQ(whole.code, 429) << whole.body;
  EXPECT_EQ(whole.body["error"]["code"], "MEMORY_LIMIT");
  request["stream"] = true;
  EXPECT_EQ(rig.Events("/v1/completions", request).back(), "[DONE]");
}

TEST(HostileHttp, ThePageLoadsNothingElse) {
  GatewayRig rig;
  const HttpAnswer page = rig.Send("GET", "/", "");
  EXPECT_EQ(page.code, 200);
  EXPECT_THAT(page.headers, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(page.body, HasSubstr("<!doctype html>"));
  for (const char* const away : {"http://", "https://", "src=", "@import"}) {
    EXPECT_THAT(page.body, Not(HasSubstr(away)));
  }
}

}  // namespace
}  // namespace mnemon
