// SPDX-License-Identifier: MIT
#include "client/session_calls.h"

#include "base/error.h"
#include "client/commands/session_json.h"
#include "client/session_messages.h"
#include "gmock/gmock.h"
#include "tests/client/fake_sessions.h"

namespace mnemon::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Code = absl::StatusCode;

void ExpectError(const absl::Status& status, Code code, const std::string& part) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

class SessionCallsTest : public ::testing::Test {
 protected:
  // All bytes of an export.
  absl::StatusOr<ExportedSession> Export(const std::string& id) {
    bytes_.clear();
    return client_->ExportSession(id, [&](std::string_view part) {
      bytes_ += part;
      return absl::OkStatus();
    });
  }

  absl::StatusOr<Session> Import(const std::string& bytes, int64_t size) {
    size_t at = 0;
    return client_->ImportSession({.id = "copy", .size_bytes = size},
                                  [&bytes, at](char* to, size_t most) mutable {
                                    const size_t count = bytes.copy(to, most, at);
                                    at += count;
                                    return absl::StatusOr<size_t>(count);
                                  });
  }

  FakeSessions fake_;
  std::unique_ptr<Client> client_ = fake_.NewClient();
  std::string bytes_;
};

TEST_F(SessionCallsTest, CreateSendsEveryInput) {
  const auto session = client_->CreateSession(
      {.id = "anna",
       .model = "small",
       .expire_time = SystemTime(milliseconds(1800000000250)),
       .durability = Durability::kAlways,
       .sampling =
           SamplingOptions{.temperature = 0.5, .logit_bias = {{7, -1}}, .seed = 3},
       .paused = true,
       .request_id = "uuid"});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->id, "anna");
  const v1::CreateSessionRequest& sent = fake_.created;
  EXPECT_EQ(sent.session_id(), "anna");
  EXPECT_EQ(sent.request_id(), "uuid");
  EXPECT_EQ(sent.session().model(), "models/small");
  EXPECT_FALSE(sent.session().has_ttl());
  EXPECT_EQ(sent.session().expire_time().seconds(), 1800000000);
  EXPECT_EQ(sent.session().expire_time().nanos(), 250000000);
  EXPECT_EQ(sent.session().durability(), v1::Session::ALWAYS);
  EXPECT_EQ(sent.session().sampling().temperature(), 0.5);
  EXPECT_EQ(sent.session().sampling().seed(), 3);
  EXPECT_EQ(sent.session().sampling().logit_bias(0).token_id(), 7);
  EXPECT_TRUE(sent.session().paused());
}

TEST_F(SessionCallsTest, CallsThatAreLostAreMadeAgainWhereThatIsRight) {
  fake_.Add("anna", 12);
  std::string lost;  // the id of the try that was lost
  const auto expect = [&](bool again, const absl::Status& status) {
    EXPECT_EQ(status.code(), again ? Code::kOk : Code::kUnavailable) << status;
    EXPECT_EQ(fake_.losses, 0);
    ASSERT_THAT(fake_.lost_ids, SizeIs(1));
    lost = fake_.lost_ids[0];
    fake_.lost_ids.clear();
    fake_.losses = 1;
  };
  fake_.losses = 1;
  expect(true, client_->CreateSession({.id = "b"}).status());
  EXPECT_EQ(fake_.created.request_id(), lost);
  EXPECT_THAT(lost, SizeIs(36));
  expect(true, client_->ForkSession({.parent = "anna", .id = "c"}).status());
  EXPECT_EQ(fake_.forked.request_id(), lost);
  EXPECT_THAT(lost, SizeIs(36));
  expect(true, client_->CheckpointSession({.id = "anna"}).status());
  EXPECT_EQ(fake_.checkpointed.request_id(), lost);
  EXPECT_THAT(lost, SizeIs(36));
  expect(true, client_->GetSession("anna").status());
  expect(true, client_->ListSessions().status());
  expect(true, client_->UpdateSession({.id = "anna", .paused = false}).status());
  expect(
      false,
      client_->UpdateSession({.id = "anna", .etag = "e1", .paused = false}).status());
  expect(false, client_->RewindSession({.id = "anna", .position = 3}).status());
  expect(false, client_->DeleteSession("c"));
  expect(true, client_->DeleteSession(
                   DeleteSessionOptions{.id = "c", .allow_missing = true}));
}

TEST_F(SessionCallsTest, AnImportIsMadeAgainFromTheBeginOfItsSource) {
  const std::string bytes(600000, 'x');
  size_t at = 0;
  const SnapshotSource source = [&](char* to, size_t most) {
    const size_t count = bytes.copy(to, most, at);
    at += count;
    return absl::StatusOr<size_t>(count);
  };
  ImportSessionOptions options{.id = "copy", .size_bytes = 600000};
  fake_.losses = 1;
  EXPECT_EQ(client_->ImportSession(options, source).status().code(),
            Code::kUnavailable);
  at = 0;
  options.rewind = [&] {
    at = 0;
    return absl::OkStatus();
  };
  fake_.losses = 1;
  const auto session = client_->ImportSession(options, source);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(fake_.imported, bytes);
  ASSERT_THAT(fake_.lost_ids, SizeIs(2));
  EXPECT_EQ(fake_.lost_ids[1], fake_.opened.request_id());
  EXPECT_THAT(fake_.opened.request_id(), SizeIs(36));
}

TEST_F(SessionCallsTest, GetTellsEveryFact) {
  v1::Session& session = fake_.Add("anna", 12);
  session.set_parent("sessions/eve");
  session.set_rebuilt(true);
  session.set_paused(true);
  session.set_state(v1::Session::PAUSED);
  session.mutable_sampling()->set_top_k(4);
  v1::Checkpoint& checkpoint = *session.add_checkpoints();
  checkpoint.set_checkpoint_id("c");
  checkpoint.set_token_count(5);
  const auto got = client_->GetSession("sessions/anna");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(
      ToJson(*got),
      "{\"name\":\"sessions/anna\",\"model\":\"models/small\",\"state\":\"PAUSED\","
      "\"token_count\":12,\"state_size_bytes\":1200,"
      "\"create_time\":\"2026-01-01T00:00:00.000000Z\","
      "\"last_use_time\":\"2026-01-01T00:01:01.250000Z\","
      "\"expire_time\":\"2026-01-02T00:01:01.000000Z\",\"etag\":\"e1\","
      "\"parent\":\"sessions/eve\",\"rebuilt\":true,\"durability\":\"TURN\","
      "\"sampling\":{\"top_k\":4},\"paused\":true,\"tier\":\"HOST\","
      "\"model_id\":\"aa11\",\"numerics_id\":\"fp32/1\",\"checkpoints\":[{"
      "\"checkpoint_id\":\"c\",\"token_count\":5,\"size_bytes\":0}]"
      "}");
}

TEST(SessionMessages, ValuesOfANewerOrHostileServerAreNone) {
  v1::Session session;
  session.set_state(static_cast<v1::Session::State>(77));
  session.mutable_create_time()->set_seconds(INT64_MAX);
  session.mutable_expire_time()->set_seconds(INT64_MIN);
  const Session read = FromMessage(session);
  EXPECT_EQ(read.state, "");
  EXPECT_EQ(read.tier, "");
  EXPECT_FALSE(read.create_time || read.expire_time);
}

TEST_F(SessionCallsTest, ListTakesOnePageOrAll) {
  for (const char* id : {"a", "b", "c", "d", "e"}) fake_.Add(id, 1);
  const auto page = client_->ListSessionPage({.page_size = 3, .page_token = "a"});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->sessions.size(), 3u);
  EXPECT_EQ(page->next_page_token, "d");
  fake_.listed.clear();
  const auto all = client_->ListSessions("state = IDLE", "name desc");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->size(), 5u);
  ASSERT_EQ(fake_.listed.size(), 3u);
  for (const v1::ListSessionsRequest& one : fake_.listed) {
    EXPECT_EQ(one.filter(), "state = IDLE");
    EXPECT_EQ(one.order_by(), "name desc");
  }
  EXPECT_EQ(fake_.listed[2].page_token(), "d");
  fake_.same_page_forever = true;
  ExpectError(client_->ListSessions().status(), Code::kDataLoss, "does not go on");
}

TEST_F(SessionCallsTest, UpdateSendsMaskAndEtag) {
  fake_.Add("anna", 1);
  const auto session = client_->UpdateSession(
      {.id = "anna", .etag = "e1", .fields = {"paused", "ttl"}, .paused = true});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(session->paused);
  EXPECT_THAT(fake_.updated.update_mask().paths(), ElementsAre("paused", "ttl"));
  EXPECT_FALSE(fake_.updated.session().has_ttl());
  ExpectError(client_->UpdateSession({.id = "anna", .etag = "e0"}).status(),
              Code::kAborted, "the etag is e1");
}

TEST_F(SessionCallsTest, DeleteTakesEtagAndAbsence) {
  fake_.Add("anna", 1);
  ExpectError(client_->DeleteSession(DeleteSessionOptions{.id = "anna", .etag = "e0"}),
              Code::kAborted, "");
  EXPECT_TRUE(
      client_->DeleteSession(DeleteSessionOptions{.id = "anna", .etag = "e1"}).ok());
  ExpectError(client_->DeleteSession("anna"), Code::kNotFound, "sessions/anna");
  EXPECT_TRUE(
      client_->DeleteSession(DeleteSessionOptions{.id = "anna", .allow_missing = true})
          .ok());
}

TEST_F(SessionCallsTest, ForkTakesAPartAndChoices) {
  fake_.Add("anna", 12);
  auto fork = client_->ForkSession({.parent = "anna"});
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 12);
  EXPECT_FALSE(fake_.forked.has_token_count() || fake_.forked.session().has_ttl());
  fork = client_->ForkSession({.parent = "anna",
                               .id = "bert",
                               .position = 0,
                               .ttl = seconds(60),
                               .request_id = "uuid"});
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->id, "bert");
  EXPECT_EQ(fork->position, 0);
  EXPECT_EQ(fake_.forked.name(), "sessions/anna");
  EXPECT_EQ(fake_.forked.session().ttl().seconds(), 60);
  EXPECT_EQ(fake_.forked.request_id(), "uuid");
  ExpectError(client_->ForkSession({.parent = "anna", .id = "bert"}).status(),
              Code::kAlreadyExists, "bert");
}

TEST_F(SessionCallsTest, RewindGoesToTokensOrToACheckpoint) {
  fake_.Add("anna", 12);
  ASSERT_TRUE(client_->CheckpointSession({.id = "anna", .checkpoint = "c"}).ok());
  EXPECT_EQ(client_->RewindSession({.id = "anna", .position = 0})->position, 0);
  EXPECT_TRUE(fake_.rewound.has_token_count());
  fake_.sessions["anna"].set_token_count(20);
  EXPECT_EQ(
      client_->RewindSession({.id = "anna", .checkpoint = "c", .etag = "e1"})->position,
      12);
  EXPECT_TRUE(fake_.rewound.has_checkpoint_id());
  EXPECT_EQ(fake_.rewound.etag(), "e1");
  ExpectError(client_->RewindSession({.id = "anna", .position = 99}).status(),
              Code::kOutOfRange, "99");
  for (const RewindSessionOptions& wrong :
       {RewindSessionOptions{.id = "anna"},
        RewindSessionOptions{.id = "anna", .position = 1, .checkpoint = "c"}}) {
    const absl::Status status = client_->RewindSession(wrong).status();
    ExpectError(status, Code::kInvalidArgument, "give one of them");
    EXPECT_EQ(GetErrorDetail(status)->field, "target");
  }
}

TEST_F(SessionCallsTest, ExportPassesOnEveryByte) {
  fake_.Add("anna", 12);
  for (const size_t size : {0, 1, 1000, 1001, 3000000}) {
    fake_.snapshot = std::string(size, 'x') + (size > 1 ? "end" : "");
    fake_.chunk_bytes = size > 1001 ? size_t{1} << 20 : 1000;
    const auto exported = Export("anna");
    if (size == 0) {
      ExpectError(exported.status(), Code::kDataLoss, "sent nothing");
      continue;
    }
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_EQ(exported->session.position, 12);
    EXPECT_EQ(exported->size_bytes, static_cast<int64_t>(fake_.snapshot.size()));
    EXPECT_EQ(bytes_, fake_.snapshot);
  }
  ExpectError(Export("nobody").status(), Code::kNotFound, "sessions/nobody");
}

TEST_F(SessionCallsTest, AnExportThatIsNotWholeIsAnError) {
  fake_.Add("anna", 12);
  fake_.snapshot = std::string(10000, 'x');
  fake_.announced_bytes = 10001;
  ExpectError(Export("anna").status(), Code::kDataLoss, "10001 bytes and sent 10000");
  fake_.announced_bytes = 1500;
  ExpectError(Export("anna").status(), Code::kDataLoss, "1500 bytes and sent more");
  EXPECT_EQ(bytes_.size(), 1000u);
  fake_.Settle();
  fake_.announced_bytes.reset();
  fake_.fault = FakeSessions::Fault::kBreak;
  ExpectError(Export("anna").status(), Code::kDataLoss, "the disk broke");
}

TEST_F(SessionCallsTest, AnErrorOfTheSinkEndsTheExport) {
  fake_.Add("anna", 12);
  fake_.snapshot = std::string(100000, 'x');
  fake_.fault = FakeSessions::Fault::kHang;
  int parts = 0;
  const auto exported = client_->ExportSession("anna", [&](std::string_view) {
    return ++parts < 3 ? absl::OkStatus() : absl::ResourceExhaustedError("full");
  });
  ExpectError(exported.status(), Code::kResourceExhausted, "full");
  EXPECT_EQ(parts, 3);
}

TEST_F(SessionCallsTest, AStreamThatStallsEnds) {
  fake_.Add("anna", 12);
  fake_.snapshot = std::string(10000, 'x');
  fake_.fault = FakeSessions::Fault::kHang;
  client_ = fake_.NewClient(milliseconds(2000));
  ExpectError(Export("anna").status(), Code::kDeadlineExceeded, "within 2000 ms");
  EXPECT_EQ(bytes_.size(), 5000u);
  ExpectError(Import("abc", 3).status(), Code::kDeadlineExceeded, "within 2000 ms");
  ExpectError(client_->VerifySession("anna", false).status(), Code::kDeadlineExceeded,
              "");
  fake_.Settle();
  // The time of the caller does not count.
  fake_.fault = FakeSessions::Fault::kNone;
  fake_.snapshot = "abc";
  EXPECT_TRUE(client_
                  ->ExportSession("anna",
                                  [&](std::string_view) {
                                    // Longer than a stream may stall.
                                    std::this_thread::sleep_for(milliseconds(2300));
                                    return absl::OkStatus();
                                  })
                  .ok());
}

TEST_F(SessionCallsTest, CancelEndsStreamsAndVerifications) {
  fake_.Add("anna", 12);
  fake_.snapshot = std::string(10000, 'x');
  fake_.fault = FakeSessions::Fault::kHang;
  fake_.before_hang = [&] { client_->CancelCalls(); };
  ExpectError(Export("anna").status(), Code::kCancelled, "");
  ExpectError(Import("abc", 3).status(), Code::kCancelled, "");
  ExpectError(client_->VerifySession("anna", true).status(), Code::kCancelled, "");
}

TEST_F(SessionCallsTest, ImportSendsChunksOf256KiB) {
  const std::string bytes = std::string(600000, 'x') + "end";
  const auto session = Import(bytes, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->id, "copy");
  EXPECT_EQ(fake_.imported, bytes);
  EXPECT_EQ(fake_.opened.size_bytes(), 600003);
  EXPECT_THAT(fake_.chunk_sizes, ElementsAre(262144, 262144, 75715));
}

TEST_F(SessionCallsTest, AnImportThatIsNotWholeMakesNoSession) {
  ExpectError(Import("abc", 4).status(), Code::kInvalidArgument, "4 bytes and has 3");
  ExpectError(Import("abc", 2).status(), Code::kInvalidArgument,
              "2 bytes and has more");
  ExpectError(Import("", 0).status(), Code::kInvalidArgument, "at least one byte");
  const auto broken = client_->ImportSession(
      {.id = "copy", .size_bytes = 9}, [](char*, size_t) -> absl::StatusOr<size_t> {
        return absl::DataLossError("bad");
      });
  ExpectError(broken.status(), Code::kDataLoss, "bad");
  fake_.Settle();
  EXPECT_TRUE(fake_.sessions.empty());
}

TEST_F(SessionCallsTest, AnImportThatIsRefusedHalfWayTellsWhy) {
  fake_.fault = FakeSessions::Fault::kBreak;
  const std::string bytes(size_t{64} << 20, 'x');
  ExpectError(Import(bytes, static_cast<int64_t>(bytes.size())).status(),
              Code::kDataLoss, "the disk broke");
}

TEST_F(SessionCallsTest, VerifyTellsWhatDiffers) {
  fake_.Add("anna", 12);
  fake_.verification.set_stored_form_valid(true);
  fake_.verification.set_replay_equal(false);
  fake_.verification.set_first_difference("layers.0.memory");
  const auto verification = client_->VerifySession("anna", true);
  ASSERT_TRUE(verification.ok()) << verification.status();
  EXPECT_TRUE(fake_.replayed);
  EXPECT_TRUE(verification->stored_form_valid);
  EXPECT_EQ(verification->replay_equal, false);
  EXPECT_EQ(verification->first_difference, "layers.0.memory");
}

}  // namespace
}  // namespace mnemon::client
