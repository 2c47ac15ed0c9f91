// SPDX-License-Identifier: MIT
// The service layer by itself: its methods for a caller that is a test.
#include "server/service/service.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/methods.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/toy_decoder.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAreArray;

std::string ReasonIn(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).reason;
}

// Takes messages of Generate one at a time, when the test says so, and the end of any
// call.
class TestCaller final : public UnaryCaller,
                         public ResponseWriter<v1::GenerateResponse> {
 public:
  CallProgress& progress() override { return progress_; }
  std::optional<Time> deadline() const override { return deadline_; }
  bool gone() const override { return gone_; }
  std::shared_ptr<const Connection> connection() const override { return nullptr; }
  std::function<void(const absl::Status&)> CancelFunction() override {
    return [](const absl::Status&) {};
  }
  void Watch(std::shared_ptr<CallEvents> events) override {
    events_ = std::move(events);
  }
  void Answer(const absl::Status& status, const RequestScope& scope) override {
    Finish(status, scope);
  }
  void Write(const v1::GenerateResponse& message) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(writing_) << "one message at a time";
    writing_ = true;
    messages_.push_back(message);
    changed_.notify_all();
  }
  void WriteLast(const v1::GenerateResponse& message, const absl::Status& status,
                 const RequestScope& scope) override {
    Write(message);
    Finish(status, scope);
  }
  void Finish(const absl::Status& status, const RequestScope& scope) override {
    const absl::Status told = PublicStatus(status, scope, &progress_);
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(end_) << "one end";
    end_ = told;
    changed_.notify_all();
  }

  void set_deadline(Time deadline) { deadline_ = deadline; }
  void set_gone() { gone_ = true; }
  // Waits for the end of the call.
  absl::Status End() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return end_.has_value(); })) {
      return absl::UnknownError("it does not end");
    }
    return *end_;
  }
  // Waits for a message; false: the call ends instead.
  bool AwaitMessage() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience,
                                  [&] { return writing_ || end_.has_value(); }));
    return std::exchange(writing_, false) && !end_;
  }
  bool writing() {
    std::lock_guard lock(mutex_);
    return writing_;
  }
  std::vector<int32_t> tokens() {
    std::lock_guard lock(mutex_);
    std::vector<int32_t> all;
    for (const auto& one : messages_) {
      all.insert(all.end(), one.tokens().begin(), one.tokens().end());
    }
    return all;
  }

 private:
  CallProgress progress_{"test"};
  std::optional<Time> deadline_;
  std::atomic<bool> gone_ = false;
  std::shared_ptr<CallEvents> events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool writing_ = false;  // guarded by mutex_, as all below
  std::vector<v1::GenerateResponse> messages_;
  std::optional<absl::Status> end_;
};

class ServiceTest : public ::testing::Test {
 protected:
  explicit ServiceTest(const ServiceOptions& options = {}) {
    const EngineModel toy{.facts = {.name = "toy", .vocab = ToyDecoder::kVocab},
                          .decoder = &decoder_};
    engine_ = *Engine::Create({toy}, {.max_tokens = 100'000});
    service_ = *Service::Create(*engine_, options);
  }
  ~ServiceTest() override { decoder_.AllowAll(); }

  static v1::GenerateRequest Ask(int32_t tokens) {
    v1::GenerateRequest request;
    request.mutable_prompt()->mutable_tokens()->add_ids(1);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_max_tokens(tokens);
    return request;
  }
  // The end of a call of `method`.
  template <class Method>
  absl::Status Call(const Method& method, const typename Method::Request& request,
                    typename Method::Response* response = nullptr) {
    typename Method::Response own;
    TestCaller caller;
    method.begin(service_->parts(), caller, request,
                 response == nullptr ? own : *response);
    return caller.End();
  }

  ToyDecoder decoder_{ToyState::kFixed};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Service> service_;
};

TEST_F(ServiceTest, GeneratesAMessageAtATimeForAReaderThatTakesThem) {
  const v1::GenerateRequest request = Ask(500);
  TestCaller caller;
  const auto handler = MakeGenerateHandler(service_->parts(), caller, request, caller);
  handler->Start();
  EXPECT_EQ(service_->open_calls(), 1u);
  while (caller.AwaitMessage()) handler->OnWritten(true);
  EXPECT_TRUE(caller.End().ok()) << caller.End();
  EXPECT_THAT(caller.tokens(),
              ElementsAreArray(ToyContinuation(ToyState::kFixed, {1}, 500,
                                               SamplingParams{.temperature = 0})));
  handler->OnDone();
  EXPECT_EQ(service_->open_calls(), 0u);
  const AccessRecord record = caller.progress().TakeRecord();
  EXPECT_EQ(record.model, "toy");
  EXPECT_EQ(record.generated_tokens, 500);
}

TEST_F(ServiceTest, AReaderThatTakesNothingPausesItsCall) {
  const v1::GenerateRequest request = Ask(100'000);
  TestCaller caller;
  const auto handler = MakeGenerateHandler(service_->parts(), caller, request, caller);
  handler->Start();
  ASSERT_TRUE(caller.AwaitMessage());  // and its OnWritten does not come
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (engine_->Stats().models[0].stalled == 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_EQ(engine_->Stats().models[0].stalled, 1);
  EXPECT_FALSE(caller.writing());
  // It goes: the write that is under way is not taken.
  caller.set_gone();
  handler->OnGone();
  handler->OnWritten(false);
  EXPECT_TRUE(absl::IsCancelled(caller.End())) << caller.End();
  handler->OnDone();
  EXPECT_TRUE(engine_->WaitIdle(kPatience));
}

TEST_F(ServiceTest, ADrainEndsCallsAfterWhatWaits) {
  const v1::GenerateRequest request = Ask(100'000);
  TestCaller caller;
  const auto handler = MakeGenerateHandler(service_->parts(), caller, request, caller);
  handler->Start();
  ASSERT_TRUE(caller.AwaitMessage());
  int told = 0;
  service_->drain().Tell([&] { ++told; });
  service_->drain().Begin(milliseconds(0));
  EXPECT_EQ(told, 1);
  handler->OnWritten(true);
  while (caller.AwaitMessage()) handler->OnWritten(true);
  EXPECT_EQ(ReasonIn(caller.End()), "DRAINING") << caller.End();
  handler->OnDone();
  service_->drain().Wait();
  EXPECT_EQ(ReasonIn(Call(kCreateSession, {})), "DRAINING");
  service_->drain().Tell(nullptr);
}

TEST_F(ServiceTest, UnaryMethodsAnswerOnce) {
  v1::CreateSessionRequest create;
  create.set_session_id("anna");
  v1::Session session;
  EXPECT_TRUE(Call(kCreateSession, create, &session).ok());
  EXPECT_EQ(session.name(), "sessions/anna");
  const absl::Status again = Call(kCreateSession, create);
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_EQ(GetErrorDetail(again)->metadata["resource"], "sessions/anna");
  v1::GetSessionRequest get;
  get.set_name("sessions/other");
  EXPECT_TRUE(absl::IsNotFound(Call(kGetSession, get)));
  v1::ListModelsResponse models;
  EXPECT_TRUE(Call(kListModels, {}, &models).ok());
  EXPECT_EQ(models.models_size(), 1);
}

TEST_F(ServiceTest, NothingBeginsForCallersThatHaveGoneOrAreLate) {
  v1::GetSessionRequest get;
  get.set_name("sessions/anna");
  v1::Session session;
  TestCaller gone;
  gone.set_gone();
  kGetSession.begin(service_->parts(), gone, get, session);
  EXPECT_TRUE(absl::IsCancelled(gone.End()));
  TestCaller late;
  late.set_deadline(std::chrono::steady_clock::now() - milliseconds(1));
  const v1::GenerateRequest request = Ask(1);
  const auto handler = MakeGenerateHandler(service_->parts(), late, request, late);
  handler->Start();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.End()));
  handler->OnDone();
  EXPECT_EQ(engine_->Stats().tokens_computed, 0);
}

TEST(ServiceOptions, WrongOnesAreNamed) {
  ToyDecoder decoder(ToyState::kFixed);
  const auto engine = *Engine::Create(
      {{.facts = {.name = "toy", .vocab = ToyDecoder::kVocab}, .decoder = &decoder}},
      {});
  for (const ServiceOptions& wrong :
       {ServiceOptions{.max_calls_per_second = -1},
        ServiceOptions{.idle_timeout = milliseconds(0)}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Service::Create(*engine, wrong).status()));
  }
}

}  // namespace
}  // namespace mnemon
