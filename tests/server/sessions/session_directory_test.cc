// SPDX-License-Identifier: MIT
#include "server/sessions/session_directory.h"

#include <utility>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/sessions/session_journal.h"
#include "tests/fakes/fake_clock.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string ErrorReason(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).reason;
}

// Counts deletions; everything is quiet.
class QuietJournal final : public SessionJournal {
 public:
  Durability durability() const override { return Durability::kTurn; }
  bool SetDurability(Durability) override { return false; }
  bool Restore(Durability) override { return false; }
  absl::Status status() const override { return absl::OkStatus(); }
  bool in_store() const override { return true; }
  bool IsQuiet() const override { return true; }
  void Attach(std::shared_ptr<TokenStream>) override {}
  void EndTurn() noexcept override {}
  void TouchRecord() noexcept override {}
  void Flush(WaiterKind, OnSynced) override {}
  void Delete(OnSynced) override { ++deletions; }
  bool TryDelete(std::optional<uint64_t>, OnSynced) override { return false; }
  uint64_t changes() const override { return 0; }
  int64_t bytes() const override { return 0; }
  bool HasCheckpoint(const std::string&) const override { return false; }
  void DropCheckpoint(const std::string&) override {}
  void OnChange(const TokenHistory&, int64_t, int64_t) noexcept override {}

  int deletions = 0;
};

struct DirectoryScene {
  std::shared_ptr<Session> Add(const std::string& id,
                               std::optional<milliseconds> ttl = {}) {
    auto session = std::make_shared<Session>(id, 0);
    session->entry.ttl = ttl;
    auto added = directory.Insert(std::move(session));
    EXPECT_TRUE(added.ok()) << added.status();
    return *added;
  }

  FakeClock clock;
  int posted = 0;
  SessionDirectory directory{1, 3, clock, nullptr,
                             [this](CallbackList& list) { posted += list.size(); }};
};

TEST(SessionDirectory, RepeatsTheRequestThatCreatedASession) {
  DirectoryScene f;
  const auto create = [&](const std::string& id, const std::string& text) {
    auto session = std::make_shared<Session>(id, 0);
    session->request_id = "r";
    session->request_text = text;
    return f.directory.Insert(session);
  };
  const auto first = create("a", "x");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(create("a", "x").value(), *first);
  EXPECT_EQ(ErrorReason(create("a", "y").status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(ErrorReason(create("b", "x").status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(f.directory.MadeBy("r"), "a");
  EXPECT_EQ(f.directory.size(), 1);
  ASSERT_TRUE(f.directory.Remove("a").ok());
  EXPECT_EQ(f.directory.MadeBy("r"), "");
}

TEST(SessionDirectory, LimitsSessions) {
  DirectoryScene f;
  for (const char* id : {"a", "b", "c"}) f.Add(id);
  EXPECT_EQ(ErrorReason(f.directory.Insert(std::make_shared<Session>("d", 0)).status()),
            "SESSION_LIMIT");
  EXPECT_EQ(ErrorReason(f.directory.Insert(std::make_shared<Session>("a", 0)).status()),
            "SESSION_EXISTS");
}

TEST(SessionDirectory, SessionsExpireAtRestOnly) {
  DirectoryScene f;
  const auto session = f.Add("a", milliseconds(100));
  EXPECT_TRUE(f.directory.calls().Hold(*session, "").value());
  EXPECT_FALSE(f.directory.NextExpiry());
  f.clock.Advance(milliseconds(200));
  EXPECT_THAT(f.directory.RemoveExpired(), IsEmpty());
  EXPECT_TRUE(f.directory.calls().Release(*session, /*taken=*/true));
  EXPECT_EQ(f.directory.UntilExpiry(), milliseconds(100));
  f.clock.Advance(milliseconds(100));
  EXPECT_EQ(ErrorReason(f.directory.Find("a").status()), "SESSION_EXPIRED");
  EXPECT_THAT(f.directory.RemoveExpired(), ElementsAre(session));
  EXPECT_EQ(ErrorReason(f.directory.Find("a").status()), "SESSION_EXPIRED");
  EXPECT_EQ(f.directory.size(0), 0);
}

TEST(SessionDirectory, AnIdIsFreeOnceTheStoreIsToldOfItsRemoval) {
  DirectoryScene f;
  const auto journal = std::make_shared<QuietJournal>();
  auto session = std::make_shared<Session>("a", 0);
  session->journal = journal;
  ASSERT_TRUE(f.directory.Insert(session).ok());
  ASSERT_TRUE(f.directory.Remove("a").ok());
  EXPECT_EQ(journal->deletions, 0);
  f.Add("a");
  EXPECT_EQ(journal->deletions, 1);
  f.directory.Left(*session);
  EXPECT_TRUE(f.directory.Contains("a"));
}

TEST(SessionCalls, OneCallHoldsASession) {
  DirectoryScene f;
  const auto session = f.Add("a");
  SessionCalls& calls = f.directory.calls();
  EXPECT_TRUE(calls.Hold(*session, "r").value());
  EXPECT_FALSE(calls.Hold(*session, "r").value());
  EXPECT_EQ(calls.UseOf(*session, "r"), SessionCalls::IdUse::kHolds);
  EXPECT_TRUE(calls.Release(*session, /*taken=*/true));
  EXPECT_EQ(calls.UseOf(*session, "r"), SessionCalls::IdUse::kRemembered);
  EXPECT_EQ(ErrorReason(calls.Hold(*session, "r").status()), "REQUEST_REPEATED");
  EXPECT_TRUE(calls.Hold(*session, "s").value());
  EXPECT_TRUE(calls.Release(*session, /*taken=*/false));
  EXPECT_EQ(calls.UseOf(*session, "s"), SessionCalls::IdUse::kUnknown);
}

TEST(SessionCalls, TheNewestResumeHasItsTurn) {
  DirectoryScene f;
  const auto session = f.Add("a");
  SessionCalls& calls = f.directory.calls();
  const auto turn = [&](const std::string& request_id) {
    CallbackList list;
    list.Add(MakeCallback([] {}));
    return calls.AwaitTurn(*session, request_id, list);
  };
  ASSERT_TRUE(calls.Hold(*session, "r").value());
  const SessionCalls::Resume first{.call = nullptr,
                                   .number = calls.BeginResume(*session)};
  EXPECT_TRUE(calls.IsNewestResume(*session, first.number));
  EXPECT_FALSE(turn("other"));
  EXPECT_TRUE(turn("r"));
  EXPECT_EQ(f.posted, 0);
  EXPECT_TRUE(turn("r"));  // takes the place of the first
  EXPECT_EQ(f.posted, 1);
  calls.Release(*session, /*taken=*/true);
  EXPECT_EQ(f.posted, 2);
  EXPECT_TRUE(turn("r"));  // at once
  EXPECT_EQ(f.posted, 3);
  calls.BeginResume(*session);
  EXPECT_EQ(ErrorReason(calls.Hold(*session, "r", &first).status()), "STREAM_RESUMED");
}

TEST(SessionUpdates, ARefusedUpdateIsUndone) {
  DirectoryScene f;
  const auto session = f.Add("a", milliseconds(100));
  SessionUpdates& updates = f.directory.updates();
  const std::string etag = updates.EtagOf(*session);
  const auto first = updates.Update(
      *session, etag, {.expiration = {{.ttl = milliseconds(500), .expires_at = {}}}});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(f.directory.UntilExpiry(), milliseconds(500));
  EXPECT_EQ(ErrorReason(updates.Update(*session, etag, {.paused = true}).status()),
            "ETAG_MISMATCH");
  const auto second = updates.Update(*session, "", {.paused = true});
  ASSERT_TRUE(second.ok());
  // The older one ends with the newer one.
  EXPECT_FALSE(updates.Settle(*session, *first, /*stored=*/false));
  EXPECT_TRUE(f.directory.FactsOf(*session).paused);
  EXPECT_TRUE(updates.Settle(*session, *second, /*stored=*/false));
  EXPECT_FALSE(f.directory.FactsOf(*session).paused);
  EXPECT_EQ(f.directory.UntilExpiry(), milliseconds(100));
  EXPECT_EQ(updates.EtagOf(*session), etag);
}

TEST(SessionCheckpoints, AreAddedOnceAndTakenBack) {
  DirectoryScene f;
  const auto session = f.Add("a");
  SessionCheckpoints& checkpoints = f.directory.checkpoints();
  const std::string etag = f.directory.updates().EtagOf(*session);
  const auto add = [&](const std::string& id, const std::string& request_id) {
    return checkpoints.Add(*session,
                           {.id = id,
                            .request_id = request_id,
                            .create_time = {},
                            .at = std::make_shared<Session>("", 0)},
                           /*drawn_id=*/false);
  };
  const auto first = add("c", "r");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(add("c", "r").value().at, first->at);
  EXPECT_EQ(ErrorReason(add("d", "r").status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(ErrorReason(add("c", "s").status()), "CHECKPOINT_EXISTS");
  EXPECT_EQ(checkpoints.Find(*session, "c").value().at, first->at);
  EXPECT_EQ(checkpoints.Of(*session).size(), 1u);
  EXPECT_NE(f.directory.updates().EtagOf(*session), etag);
  EXPECT_TRUE(checkpoints.Remove(*session, *first->at));
  EXPECT_FALSE(checkpoints.Remove(*session, *first->at));
  EXPECT_EQ(f.directory.updates().EtagOf(*session), etag);
  EXPECT_EQ(ErrorReason(checkpoints.Find(*session, "c").status()),
            "CHECKPOINT_NOT_FOUND");
}

TEST(SessionSleep, ASleepingSessionIsFoundAndListed) {
  DirectoryScene f;
  const auto journal = std::make_shared<QuietJournal>();
  const auto make = [&](const std::string& id) {
    auto session = std::make_shared<Session>(id, 0);
    session->journal = journal;
    return session;
  };
  f.directory.sleep().SetWaker(make);
  ASSERT_TRUE(f.directory.Insert(make("a")).ok());
  f.Add("b");
  const std::string etag = f.directory.updates().EtagOf(**f.directory.Find("a"));
  EXPECT_EQ(f.directory.sleep().Sleep("b"), 0);  // has no journal
  EXPECT_GT(f.directory.sleep().Sleep("a"), 0);
  EXPECT_EQ(f.directory.sleep().size(), 1);
  EXPECT_EQ(f.directory.stored(0), 1);
  EXPECT_EQ(f.directory.size(), 2);
  std::string next;
  const auto listed = f.directory.From("", 10, next);
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ(f.directory.updates().EtagOf(*listed->front()), etag);
  EXPECT_EQ(f.directory.sleep().size(), 1);
  EXPECT_EQ(f.directory.updates().EtagOf(**f.directory.Find("a")), etag);
  EXPECT_EQ(f.directory.sleep().size(), 0);
  EXPECT_EQ(f.directory.stored(0), 0);
}

TEST(SessionSleep, ASessionIsRemovedInItsSleep) {
  DirectoryScene f;
  auto session = std::make_shared<Session>("a", 0);
  session->journal = std::make_shared<QuietJournal>();
  ASSERT_TRUE(f.directory.Insert(std::move(session)).ok());
  ASSERT_GT(f.directory.sleep().Sleep("a"), 0);
  EXPECT_TRUE(f.directory.sleep().Remove("a"));
  EXPECT_FALSE(f.directory.sleep().Remove("a"));
  EXPECT_EQ(f.directory.size(0), 0);
  EXPECT_EQ(ErrorReason(f.directory.Insert(std::make_shared<Session>("a", 0)).status()),
            "SESSION_EXISTS");
  f.directory.sleep().FreeId("a");
  f.Add("a");
}

}  // namespace
}  // namespace mnemon
