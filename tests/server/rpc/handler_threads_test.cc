// SPDX-License-Identifier: MIT
#include <thread>
#include <vector>

#include "base/strings.h"
#include "gtest/gtest.h"
#include "server/service/call_services.h"
#include "tests/fakes/held_store.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

// More than threads of gRPC and handlers together.
constexpr int kReaders = 2 * HandlerThreads::kCount;

// Whoever needs what the store reads waits for it; streams, other calls and the ends of
// cancelled ones do not.
TEST(HandlerThreads, ReadsThatHangKeepNoOthers) {
  HeldStore store;
  RigOptions options;
  options.engine.store = &store;
  {
    Rig rig(options);
    for (int i = 0; i < kReaders; ++i) {
      const std::string id = StrCat("s", i);
      ASSERT_TRUE(rig.client->CreateSession({.id = id}).ok());
      const Collected turn =
          Collect(*rig.client,
                  {.session = id, .tokens = {1, 2}, .stopping = {.max_tokens = 1}});
      ASSERT_TRUE(turn.result.ok()) << turn.result.status();
    }
  }
  Rig rig(options);
  store.HoldReads(StoreTable::kJournal);
  std::vector<grpc::Status> read(kReaders);
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, i] {
      BoundedContext context;
      v1::GetSessionHistoryRequest request;
      request.set_name(StrCat("sessions/s", i));
      v1::SessionHistory history;
      read[i] = rig.sessions->GetSessionHistory(&context, request, &history);
    });
  }
  EXPECT_TRUE(store.AwaitHeldRead(kPatience));
  EXPECT_TRUE(Eventually([&] { return rig.service->open_calls() == kReaders; }));
  const Collected other =
      Collect(*rig.client, {.tokens = {1, 2}, .stopping = {.max_tokens = 50}});
  EXPECT_TRUE(other.result.ok()) << other.result.status();
  EXPECT_EQ(other.tokens.size(), 50u);
  store.OpenReads();
  for (std::thread& reader : readers) reader.join();
  for (const grpc::Status& status : read)
    EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace mnemon
