// SPDX-License-Identifier: MIT
// Whoever waits gets one answer: every method of a session beside whatever takes away
// what it waits for, in every order of their begins and of the commits between them.
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/server/engine/scorer.h"
#include "tests/server/engine/waiting_scene.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Facts = absl::StatusOr<SessionFacts>;

struct Method {
  std::string name;
  std::function<void(Scene&)> begin;
  bool blocks = false;  // its caller, and so is under way until it is answered
};

void Delete(Scene& scene) {
  scene.Call<absl::Status>(
      "delete", [&](auto done) { return scene.engine().DeleteSession("s", "", done); });
}

void Rewind(Scene& scene) {
  scene.Call<Facts>("rewind", [&](auto done) {
    return scene.engine().RewindSession({.session = "s", .target = int64_t{3}}, done);
  });
}

void Update(Scene& scene, std::optional<Durability> durability, const char* name) {
  UpdateSessionRequest request{.session = "s"};
  request.settings.durability = durability;
  request.settings.paused = false;
  scene.Call<Facts>(
      name, [&](auto done) { return scene.engine().UpdateSession(request, done); });
}

std::vector<Method> Methods() {
  return {
      {"create",
       [](Scene& scene) {
         scene.Call<Facts>("create", [&](auto done) {
           return scene.engine().CreateSession({.id = "t"}, done);
         });
       }},
      {"get", [](Scene& scene) { static_cast<void>(scene.engine().GetSession("s")); }},
      {"read",
       [](Scene& scene) {
         scene.Call<absl::StatusOr<HistoryPart>>("read", [&](auto done) {
           return scene.engine().ReadHistory({.session = "s"}, done);
         });
       }},
      {"update", [](Scene& scene) { Update(scene, std::nullopt, "update"); }},
      {"unstore", [](Scene& scene) { Update(scene, Durability::kNone, "unstore"); }},
      {"restore",
       [](Scene& scene) {
         Update(scene, Durability::kNone, "unstore");
         Update(scene, Durability::kAlways, "restore");
       }},
      {"delete", Delete},
      {"fork",
       [](Scene& scene) {
         scene.Call<Facts>("fork", [&](auto done) {
           return scene.engine().ForkSession({.session = "s", .id = "f"}, done);
         });
       }},
      {"rewind", Rewind},
      {"rewind_to_checkpoint",
       [](Scene& scene) {
         scene.Call<Facts>("rewind", [&](auto done) {
           return scene.engine().RewindSession(
               {.session = "s", .target = std::string("c")}, done);
         });
       }},
      {"checkpoint",
       [](Scene& scene) {
         scene.Call<absl::StatusOr<CheckpointFacts>>("checkpoint", [&](auto done) {
           return scene.engine().CheckpointSession({.session = "s", .id = "d"}, done);
         });
       }},
      {"export",
       [](Scene& scene) {
         scene.Call<absl::StatusOr<ExportedSession>>("export", [&](auto done) {
           return scene.engine().ExportSession("s", done);
         });
       }},
      {"import",
       [](Scene& scene) {
         scene.Call<Facts>("import", [&](auto done) {
           return scene.engine().ImportSession({.id = "i", .snapshot = scene.snapshot},
                                               done);
         });
       }},
      {"verify",
       [](Scene& scene) {
         scene.Call<absl::StatusOr<VerifiedSession>>("verify", [&](auto done) {
           return scene.engine().VerifySession({.session = "s", .replay = true}, done);
         });
       }},
      {"generate",
       [](Scene& scene) {
         auto reader =
             std::make_shared<Reader>(scene.engine(), Ask(Tokens(2, 3), 6, "s"));
         scene.Follow("generate", [reader] { reader->Finish(); });
       }},
      {"score",
       [](Scene& scene) {
         auto scorer = std::make_shared<Scorer>(
             scene.engine(), ScoreRequest{.session = "s", .commit = true});
         if (!scorer->status().ok()) return;
         scene.Follow("score", [scorer] {
           static_cast<void>(scorer->Append(Tokens(5, 4)));
           scorer->Finish();
         });
       }},
      {"list",
       [](Scene& scene) {
         scene.Follow("list",
                      [&] { static_cast<void>(scene.engine().ListSessions({})); });
       },
       /*blocks=*/true},
      {"save",
       [](Scene& scene) {
         scene.Follow("save", [&] {
           static_cast<void>(scene.engine().SaveSessions(
               std::chrono::steady_clock::now() + kPatience));
         });
       },
       /*blocks=*/true},
      {"unload",
       [](Scene& scene) {
         static_cast<void>(scene.engine().MemoryLimitReached(int64_t{1} << 20));
       }},
  };
}

// What takes away what the others wait for.
std::vector<Method> Takers() {
  return {
      {"delete", Delete},
      {"rewind", Rewind},
      {"unstore", [](Scene& scene) { Update(scene, Durability::kNone, "unstore"); }},
      {"expire",
       [](Scene& scene) {
         scene.server->clock.Advance(seconds(61));
         static_cast<void>(scene.engine().GetSession("nobody"));
       }},
      {"fail", [](Scene& scene) { scene.store.Fail(true); }},
      {"shut_down",
       [](Scene& scene) {
         const size_t index = scene.asked.Add("shut_down");
         scene.threads.push_back(std::async(std::launch::async, [&scene, index] {
           scene.server->engine.reset();
           scene.asked.Answered(index);
         }));
       }},
  };
}

enum class Order {
  kFirst,       // the method, until its commit is held or it is answered; the taker
  kTogether,    // the method, the taker
  kTakerFirst,  // the taker, until its commit is held; the method
  kTwice,       // the method, the taker, the method
};

class Waiting : public testing::TestWithParam<Order> {};

TEST_P(Waiting, EachIsAnsweredOnceAndTheEngineEnds) {
  for (const Method& method : Methods()) {
    for (const Method& taker : Takers()) {
      const bool ends = taker.name == "shut_down";
      const Order order = GetParam();
      // No method may be under way when an engine ends.
      if (ends && method.blocks) continue;
      if (ends && order != Order::kFirst && order != Order::kTogether) continue;
      // One of the waiting commits proceeds before the others.
      for (const int released : {0, 1}) {
        if (released > 0 && order != Order::kFirst) continue;
        SCOPED_TRACE(StrCat(method.name, " and ", taker.name, ", released ", released));
        Scene scene(seconds(60));
        const auto settle = [&](size_t index) {
          ASSERT_TRUE(scene.asked.Await([&] {
            return scene.store.AwaitHeld(milliseconds(0)) ||
                   index >= scene.asked.size() || scene.asked.answered(index);
          }));
        };
        if (order == Order::kTakerFirst) {
          taker.begin(scene);
          settle(0);
        }
        method.begin(scene);
        if (order == Order::kFirst) settle(0);
        if (order != Order::kTakerFirst) {
          if (released > 0) scene.store.Release(released);
          taker.begin(scene);
        }
        if (order == Order::kTwice) method.begin(scene);
        scene.store.Release(released);
        scene.store.Open();
        EXPECT_TRUE(scene.asked.AwaitAll()) << scene.asked.Unanswered();
        EXPECT_EQ(scene.asked.AnsweredTwice(), "");
        scene.store.Fail(false);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, Waiting,
                         testing::Values(Order::kFirst, Order::kTogether,
                                         Order::kTakerFirst, Order::kTwice),
                         [](const testing::TestParamInfo<Order>& info) -> std::string {
                           switch (info.param) {
                             case Order::kFirst:
                               return "First";
                             case Order::kTogether:
                               return "Together";
                             case Order::kTakerFirst:
                               return "TakerFirst";
                             case Order::kTwice:
                               break;
                           }
                           return "Twice";
                         });

// A turn ends while its session leaves the store, before the writer has begun with
// that.
TEST(Waiters, ATurnEndsWhileItsSessionIsUnstored) {
  Scene scene;
  // All but the last step of the turn below: its prompt and five tokens.
  scene.server->decoder.Allow(6 - 1);
  Reader reader(scene.engine(), Ask(Tokens(2, 3), 6, "s"));
  ASSERT_TRUE(scene.store.AwaitHeld(kPatience));
  scene.server->decoder.AwaitHeld();
  Update(scene, Durability::kNone, "unstore");
  scene.server->decoder.AllowAll();
  ASSERT_TRUE(scene.asked.Await([&] {
    const EngineStats stats = scene.engine().Stats();
    return stats.tokens_generated == 4 + 6 && stats.running == 0;
  }));
  EXPECT_FALSE(reader.stream().Take().finished);
  scene.store.Open();
  EXPECT_TRUE(scene.asked.AwaitAll()) << scene.asked.Unanswered();
  const Outcome outcome = reader.Finish();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.tokens.size(), 6u);
}

// A store that hangs holds up nobody for longer than the bound.
TEST(Waiters, AnOverdueAnswerIsAnErrorAndMakesTheModelUnready) {
  Scene scene;
  std::promise<absl::Status> told;
  auto answer = told.get_future();
  ASSERT_TRUE(
      scene.engine()
          .UpdateSession({.session = "s", .settings = {.paused = false}},
                         [&](const Facts& facts) { told.set_value(facts.status()); })
          .ok());
  ASSERT_TRUE(scene.store.AwaitHeld(kPatience));
  EXPECT_EQ(scene.engine().waiters().overdue(), 0);
  EXPECT_TRUE(scene.engine().Stats().models[0].ready);
  scene.server->clock.Advance(Waiters::kBound + seconds(1));
  ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
  const absl::Status status = answer.get();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(ReasonOf(status), "NO_ANSWER");
  const EngineStats hung = scene.engine().Stats();
  EXPECT_GT(hung.waiters.overdue(), 0);
  EXPECT_EQ(hung.models[0].unready, "overdue answer");
  scene.store.Open();
  EXPECT_TRUE(
      scene.asked.Await([&] { return scene.engine().waiters().overdue() == 0; }));
  const EngineStats well = scene.engine().Stats();
  EXPECT_TRUE(well.models[0].ready) << well.models[0].unready;
  int64_t total = 0;
  for (const WaiterStats::Kind& kind : well.waiters.kinds) total += kind.overdue_total;
  EXPECT_GT(total, 0);
}

// Histories leave memory again when the store that a search waited for goes on, or when
// it has waited too long.
TEST(Waiters, ASearchThatHangsIsBegunAgain) {
  Scene scene;
  Update(scene, std::nullopt, "update");
  ASSERT_TRUE(scene.store.AwaitHeld(kPatience));
  const auto unload = static_cast<size_t>(WaiterKind::kUnload);
  // A search that is about to end is not begun once more.
  const auto search_hangs = [&] {
    static_cast<void>(scene.engine().MemoryLimitReached(1 << 20));
    return scene.engine().waiters().kinds[unload].waiting > 0;
  };
  ASSERT_TRUE(scene.asked.Await(search_hangs));
  const auto overdue = [&] {
    return scene.engine().waiters().kinds[unload].overdue_total;
  };
  // The one that hangs may have begun after another that did not.
  ASSERT_TRUE(scene.asked.Await([&] {
    scene.server->clock.Advance(Waiters::kBound + seconds(1));
    return overdue() > 0;
  }));
  // Another one, which hangs as well.
  EXPECT_TRUE(scene.asked.Await(search_hangs));
}

}  // namespace
}  // namespace mnemon
