// SPDX-License-Identifier: MIT
#include "server/http/request_head.h"

#include <string>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

constexpr size_t kNone = std::string_view::npos;

std::string Head(const std::string& fields,
                 const std::string& line = "POST /v1/completions HTTP/1.1") {
  return StrCat(line, "\r\n", fields, "\r\n");
}
// Adds the required Host.
std::optional<HeadFault> CheckFields(const std::string& fields) {
  return CheckHead(Head("Host: localhost\r\n" + fields));
}
std::optional<HeadFault> CheckLine(const std::string& line) {
  return CheckHead(Head("Host: localhost:8000\r\n", line));
}

TEST(RequestHead, WhatClientsSendIsAllowed) {
  for (const char* const fields :
       {"", "Content-Length: 0\r\n", "Content-Length:12\r\n",
        "Content-Length: \t12 \t\r\n", "Transfer-Encoding: chunked\r\n",
        "transfer-encoding: Chunked\r\n", "Accept: a\r\nAccept: b\r\n",
        "Origin: http://localhost\r\nContent-Type: application/json\r\n",
        "X-Empty:\r\n", "X-Text: caf\xc3\xa9, \"a\\b\"\tc\r\n",
        "Expect: 100-continue\r\nAuthorization: Bearer a.b=\r\n"}) {
    EXPECT_FALSE(CheckFields(fields)) << fields << CheckFields(fields)->message;
  }
  for (const char* const host : {"a", "a:1", "127.0.0.1:8000", "[::1]", "[::1]:80",
                                 "example.org.", "a_b-c.d:65535", ""}) {
    EXPECT_FALSE(CheckHead(Head(StrCat("Host: ", host, "\r\n")))) << host;
  }
  for (const char* const line :
       {"GET / HTTP/1.1", "GET /a?b=c&d=%20 HTTP/1.0", "OPTIONS * HTTP/1.1",
        "BREW /a HTTP/1.1", "GET http://localhost:8000/v1/models HTTP/1.1",
        "GET HTTP://LOCALHOST:8000 HTTP/1.1"}) {
    EXPECT_FALSE(CheckLine(line)) << line << CheckLine(line)->message;
  }
  EXPECT_FALSE(CheckHead(Head("", "GET / HTTP/1.0")));
}

TEST(RequestHead, OnlyChunkedIsATransferCoding) {
  for (const char* const coding :
       {"chunked, chunked", "chunked, identity", "chunked;x", "chunked;q=1", "identity",
        "gzip", "", "chunked,", ", chunked", "\"chunked\"", "chunked gzip", "xchunked",
        "chunked,gzip,chunked", "chunked\tx", "chunked;x, chunked"}) {
    const auto fault = CheckFields(StrCat("Transfer-Encoding: ", coding, "\r\n"));
    ASSERT_TRUE(fault) << coding;
    EXPECT_EQ(fault->code, 400) << coding;
    EXPECT_THAT(fault->message, HasSubstr("Transfer-Encoding")) << coding;
  }
  for (const char* const coding :
       {"gzip, chunked", "identity,chunked", "x;y=z, chunked", "GZIP ,\tChunked"}) {
    const auto fault = CheckFields(StrCat("Transfer-Encoding: ", coding, "\r\n"));
    ASSERT_TRUE(fault) << coding;
    EXPECT_EQ(fault->code, 501) << coding;
    EXPECT_STREQ(fault->reason, "TRANSFER_CODING_UNKNOWN");
  }
  EXPECT_TRUE(CheckFields("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"));
  EXPECT_TRUE(CheckFields("Content-Length: 3\r\nTransfer-Encoding: gzip\r\n"));
  EXPECT_TRUE(CheckHead(
      Head("Host: a\r\nTransfer-Encoding: chunked\r\n", "POST /v1/a HTTP/1.0")));
}

TEST(RequestHead, ALengthIsOneNumber) {
  for (const char* const length :
       {"", "-1", "+1", "1,1", "1, 1", "0x10", "1 1", "1.0", "1e3", "one",
        "9999999999999999999", "18446744073709551617", "1;", "\"1\""}) {
    EXPECT_TRUE(CheckFields(StrCat("Content-Length: ", length, "\r\n"))) << length;
  }
}

TEST(RequestHead, WhatHasOneValueIsThereOnce) {
  for (const char* const name :
       {"Host", "Content-Length", "Transfer-Encoding", "Origin", "Content-Type",
        "Authorization", "Expect", "Content-Encoding", "X-Request-Id"}) {
    const std::string value =
        std::string(name) == "Transfer-Encoding" ? "chunked" : "1";
    const std::string one = StrCat(name, ": ", value, "\r\n");
    const auto fault = CheckFields(one + one);
    ASSERT_TRUE(fault) << name;
    EXPECT_EQ(fault->code, 400) << name;
    EXPECT_THAT(fault->message, HasSubstr("twice")) << name;
  }
  // Upper or lower case.
  EXPECT_TRUE(CheckFields("origin: http://a\r\nORIGIN: http://b\r\n"));
}

TEST(RequestHead, AHostIsNamedOnce) {
  EXPECT_TRUE(CheckHead(Head("")));
  for (const char* const host : {"a b", "a, b", "a/b", "u@a", "a:b", "a:1:2", "[::1",
                                 "[::1]x", "a\"b", "::1", "a?b", "a#b", "<a>"}) {
    EXPECT_TRUE(CheckHead(Head(StrCat("Host: ", host, "\r\n")))) << host;
  }
  EXPECT_THAT(CheckLine("GET http://other/v1 HTTP/1.1")->message,
              HasSubstr("another host"));
  EXPECT_TRUE(CheckHead(Head("", "GET http://localhost/ HTTP/1.0")));
}

TEST(RequestHead, LinesAreThoseOfTheGrammar) {
  for (const char* const fields :
       {" folded\r\n", "A: b\r\n c\r\n", "A: b\r\n\tc\r\n", "A : b\r\n", "A\t: b\r\n",
        ": b\r\n", "no colon\r\n", "A B: c\r\n", "A(: b\r\n", "A: \x01\r\n",
        "A: b\x7f\r\n", "\xc3\xa9: b\r\n", "Content-Length : 3\r\n"}) {
    EXPECT_TRUE(CheckFields(fields)) << fields;
  }
  EXPECT_TRUE(CheckFields(std::string("A: b\0c\r\n", 8)));
  for (const char* const line : {"",
                                 "GET",
                                 "GET /",
                                 "GET / HTTP/1.2",
                                 "GET / HTTP/2.0",
                                 "GET / http/1.1",
                                 "GET / HTTP/1.1 ",
                                 " GET / HTTP/1.1",
                                 "GET  / HTTP/1.1",
                                 "GET /a b HTTP/1.1",
                                 "GET\t/ HTTP/1.1",
                                 "G(T / HTTP/1.1",
                                 "GET a HTTP/1.1",
                                 "GET /a#b HTTP/1.1",
                                 "GET * HTTP/1.1",
                                 "CONNECT localhost:80 HTTP/1.1",
                                 "GET https://a/ HTTP/1.1",
                                 "GET http:///a HTTP/1.1",
                                 "GET /\x01 HTTP/1.1",
                                 "GET / HTTP/1.1\tx"}) {
    EXPECT_TRUE(CheckLine(line)) << line;
  }
}

TEST(RequestHead, MessagesNeedNoEscapes) {
  const auto fault = CheckFields(StrCat("X", std::string(100, 'y'), ": \x01\r\n"));
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->message.find_first_of("\"\\\x01"), std::string::npos);
  EXPECT_LT(fault->message.size(), 100u);
}

TEST(HeadEnd, IsFoundInPieces) {
  const std::string head = Head("Host: a\r\nB: c\r\n");
  for (size_t piece : {1, 2, 3, 7, 1000}) {
    HeadEnd end;
    std::string bytes;
    size_t found = kNone;
    const std::string sent = head + "body\nof\rany bytes";
    while (found == kNone && bytes.size() < sent.size()) {
      bytes = sent.substr(0, bytes.size() + piece);
      found = end.Find(bytes);
    }
    EXPECT_EQ(found, head.size()) << piece;
    EXPECT_FALSE(end.broken());
  }
}

TEST(HeadEnd, LinesEndInBothCharacters) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\n"), std::string("GET / HTTP/1.1\r\nA: b\n\r\n"),
        std::string("GET /\rx"), std::string("\nGET"), std::string("A: b\r\r\n"),
        std::string("A\r\nB\r\n\n")}) {
    HeadEnd end;
    EXPECT_EQ(end.Find(bytes), kNone) << bytes;
    EXPECT_TRUE(end.broken()) << bytes;
  }
  // What may yet be the end of a line.
  HeadEnd end;
  EXPECT_EQ(end.Find("GET / HTTP/1.1\r"), kNone);
  EXPECT_FALSE(end.broken());
}

TEST(Target, WithoutAuthority) {
  EXPECT_EQ(WithoutAuthority("/a?b"), "/a?b");
  EXPECT_EQ(WithoutAuthority("*"), "*");
  EXPECT_EQ(WithoutAuthority("http://a:1/b?c"), "/b?c");
  EXPECT_EQ(WithoutAuthority("HTTP://a"), "/");
}

}  // namespace
}  // namespace mnemon
