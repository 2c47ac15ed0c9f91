// SPDX-License-Identifier: MIT
// Sessions whose store is damaged at random: in one file, which costs nothing, and in
// both copies of one, which may cost what it has hit. MNEMON_DAMAGE_TRIALS of each kind
// with MNEMON_DAMAGE_SESSIONS sessions: a few, unless `scripts/check damage` asks for
// many.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/fakes/file_damage.h"
#include "tests/server/durability/stored_server.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

constexpr ToyState kTrialState = ToyState::kFixedAndAppend;

int NumberOf(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

class DamageTrials : public StoreFixture,
                     public testing::WithParamInterface<FileDamage> {
 protected:
  using Histories = std::map<std::string, std::vector<int32_t>>;

  // Sessions with turns, checkpoints and snapshots, in tables and in logs, as a kill
  // leaves them.
  void SetUp() override {
    StoreFixture::SetUp();
    StoredServer stored(Path(), kTrialState);
    const int sessions = NumberOf("MNEMON_DAMAGE_SESSIONS", 12);
    for (int turn = 0; turn < 3; ++turn) {
      for (int n = 0; n < sessions; ++n) {
        const std::string id = StrCat("s", n);
        if (turn == 0) {
          stored.CreateSession(id, n % 2 ? Durability::kAlways : Durability::kTurn);
        }
        const std::vector<int32_t> prompt = Tokens(10, 100u * turn + n);
        const Outcome outcome = stored.server->Run(Ask(prompt, 30, id));
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        histories_[id] = Joined(Joined(histories_[id], prompt), outcome.tokens);
        if (turn == 1 && n % 5 == 0) {
          ASSERT_TRUE(
              CheckpointSession(stored.engine(), {.session = id, .id = "c"}).ok());
        }
      }
      if (turn == 1) {
        ASSERT_TRUE(
            stored.engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
        ASSERT_TRUE(stored.store->Compact().ok());
      }
    }
    ASSERT_TRUE(stored.store->AwaitWhole(600));
    stored.CopyAfterKill(Path("killed"));
    files_ = FilesIn(Path("killed"));
  }

  std::string FreshCopy() const {
    fs::remove_all(Path("copy"));
    fs::copy(Path("killed"), Path("copy"), fs::copy_options::recursive);
    return Path("copy");
  }

  static absl::StatusOr<std::vector<int32_t>> Read(Engine& engine,
                                                   const std::string& id) {
    auto part = AwaitAnswer<HistoryPart>([&](auto done) {
      return engine.ReadHistory({.session = id, .first = 0, .tokens = 1000}, done);
    });
    if (!part.ok()) return part.status();
    return std::move(part->tokens);
  }

  // All of them, and one of them computed again, and gone on with.
  void ExpectWhole(StoredServer& stored, uint64_t chosen) const {
    EXPECT_EQ(stored.engine().recovery().sessions,
              static_cast<int64_t>(histories_.size()));
    EXPECT_EQ(stored.engine().recovery().damaged, 0);
    EXPECT_EQ(stored.store->condition().lost_commits, 0u);
    for (const auto& [id, history] : histories_) {
      const auto read = Read(stored.engine(), id);
      ASSERT_TRUE(read.ok()) << read.status();
      ASSERT_EQ(*read, history) << id;
    }
    const std::string id = StrCat("s", chosen % histories_.size());
    const auto verified = AwaitAnswer<VerifiedSession>([&](auto done) {
      return stored.engine().VerifySession({.session = id, .replay = true}, done);
    });
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_TRUE(verified->stored_form_valid && verified->replay_equal.value_or(true));
  }

  Histories histories_;
  std::vector<fs::path> files_;
};

TEST_P(DamageTrials, OfOneFileCostsNothingAndIsMended) {
  std::mt19937_64 random(NumberOf("MNEMON_DAMAGE_SEED", 1));
  for (int trial = 0; trial < NumberOf("MNEMON_DAMAGE_TRIALS", 4); ++trial) {
    const std::string copy = FreshCopy();
    const fs::path file =
        fs::relative(files_[random() % files_.size()], Path("killed"));
    const uint64_t place = random();
    SCOPED_TRACE(StrCat("trial ", trial, ": ", file.string(), " at ", place));
    DamageFile(GetParam(), copy / file, place);
    {
      StoredServer stored(copy, kTrialState);
      ExpectWhole(stored, place);
      ASSERT_TRUE(stored.store->AwaitWhole(600));
    }
    // The copy that was hit has all of it again.
    const std::string name = file.string();
    if (name.starts_with("db/a")) fs::remove_all(copy + "/db/b");
    if (name.starts_with("db/b")) fs::remove_all(copy + "/db/a");
    StoredServer again(copy, kTrialState);
    ExpectWhole(again, place + 1);
    if (HasFailure()) return;
  }
}

TEST_P(DamageTrials, OfBothCopiesServesNothingWrongAndNamesWhatIsLost) {
  std::mt19937_64 random(NumberOf("MNEMON_DAMAGE_SEED", 2));
  std::vector<fs::path> of_a;
  for (const fs::path& file : files_) {
    const std::string name = fs::relative(file, Path("killed")).string();
    if (name.starts_with("db/a/")) of_a.push_back(name.substr(5));
  }
  for (int trial = 0; trial < NumberOf("MNEMON_DAMAGE_TRIALS", 4); ++trial) {
    const std::string copy = FreshCopy();
    const fs::path file = of_a[random() % of_a.size()];
    const uint64_t place = random();
    SCOPED_TRACE(StrCat("trial ", trial, ": ", file.string(), " at ", place));
    for (const char* const which : {"/db/a/", "/db/b/"}) {
      const fs::path path = copy + which + file.string();
      if (fs::exists(path)) DamageFile(GetParam(), path, place);
    }
    if (const auto opened = OpenSessionStore(copy); !opened.ok()) {
      EXPECT_EQ(ReasonOf(opened.status()), "STORE_DAMAGED") << opened.status();
      continue;
    }
    StoredServer stored(copy, kTrialState);
    const StoreCondition condition = stored.store->condition();
    const bool told = condition.lost_commits > 0 || condition.unreadable > 0 ||
                      stored.engine().recovery().damaged > 0;
    for (const auto& [id, history] : histories_) {
      const auto read = Read(stored.engine(), id);
      if (!read.ok()) {
        EXPECT_TRUE(ReasonOf(read.status()) == "SESSION_DAMAGED" || told)
            << id << ": " << read.status();
        continue;
      }
      ASSERT_LE(read->size(), history.size()) << id;
      EXPECT_TRUE(std::equal(read->begin(), read->end(), history.begin())) << id;
      EXPECT_TRUE(told || *read == history) << id << " has " << read->size();
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamageTrials, testing::ValuesIn(kFileDamages),
                         [](const auto& test) {
                           return std::string(FileDamageName(test.param));
                         });

}  // namespace
}  // namespace mnemon
