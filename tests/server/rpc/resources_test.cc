// SPDX-License-Identifier: MIT
// Sessions and Models over the wire.
#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

absl::Status Create(Rig& rig, const v1::CreateSessionRequest& request,
                    v1::Session& session) {
  BoundedContext context;
  return client::FromGrpcStatus(
      rig.sessions->CreateSession(&context, request, &session));
}

TEST(Sessions, CreateGetListDelete) {
  Rig rig;
  auto made = rig.client->CreateSession("b", "models/toy");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->id, "b");
  EXPECT_EQ(made->model, "toy");
  EXPECT_EQ(made->state, "IDLE");
  EXPECT_EQ(made->position, 0);
  auto drawn = rig.client->CreateSession("", "");
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_THAT(drawn->id, SizeIs(32));
  EXPECT_TRUE(rig.client->GetSession(drawn->id).ok());
  EXPECT_THAT(*rig.client->ListSessions(), SizeIs(2));
  EXPECT_TRUE(rig.client->DeleteSession("b").ok());
  EXPECT_TRUE(absl::IsNotFound(rig.client->DeleteSession("b")));
  EXPECT_TRUE(absl::IsNotFound(rig.client->GetSession("b").status()));
  EXPECT_THAT(*rig.client->ListSessions(), SizeIs(1));
}

TEST(Sessions, ListPagesThroughAll) {
  Rig rig({.engine = {.sessions = 300}});
  for (int i = 0; i < 250; ++i) {
    ASSERT_TRUE(rig.client->CreateSession(StrCat("s", 1000 + i), "").ok());
  }
  auto all = rig.client->ListSessions();
  ASSERT_TRUE(all.ok());
  ASSERT_THAT(*all, SizeIs(250));
  for (int i = 0; i < 250; ++i) EXPECT_EQ((*all)[i].id, StrCat("s", 1000 + i));
}

TEST(Sessions, TtlBecomesExpireTime) {
  Rig rig;
  v1::CreateSessionRequest request;
  request.mutable_session()->mutable_ttl()->set_seconds(100);
  v1::Session session;
  ASSERT_TRUE(Create(rig, request, session).ok());
  EXPECT_EQ(session.expire_time().seconds() - session.create_time().seconds(), 100);
  EXPECT_EQ(session.durability(), v1::Session::NONE);
}

TEST(Sessions, WrongRequestsNameTheField) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("taken", "").ok());
  using R = v1::CreateSessionRequest;
  struct Case {
    std::string field;
    absl::StatusCode code;
    std::function<void(R&)> change;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kLater = absl::StatusCode::kUnimplemented;
  const Case cases[] = {
      {"session_id", kInvalid, [](R& r) { r.set_session_id("A"); }},
      {"session_id", kInvalid, [](R& r) { r.set_session_id("-a"); }},
      {"session_id", kInvalid, [](R& r) { r.set_session_id("../../x"); }},
      {"session_id", kInvalid, [](R& r) { r.set_session_id(std::string(64, 'a')); }},
      {"session_id", kInvalid,
       [](R& r) { r.set_session_id(std::string(1 << 20, 'a')); }},
      {"session_id", kInvalid, [](R& r) { r.set_session_id("a\nb"); }},
      {"", absl::StatusCode::kAlreadyExists, [](R& r) { r.set_session_id("taken"); }},
      {"session.model", kInvalid, [](R& r) { r.mutable_session()->set_model("toy"); }},
      {"session.model", absl::StatusCode::kNotFound,
       [](R& r) { r.mutable_session()->set_model("models/x"); }},
      {"session.ttl", kInvalid, [](R& r) { r.mutable_session()->mutable_ttl(); }},
      {"session.ttl", kInvalid,
       [](R& r) { r.mutable_session()->mutable_ttl()->set_seconds(-1); }},
      {"session.ttl", kInvalid,
       [](R& r) { r.mutable_session()->mutable_ttl()->set_seconds(INT64_MAX); }},
      {"session.ttl", kInvalid,
       [](R& r) { r.mutable_session()->mutable_ttl()->set_nanos(INT32_MAX); }},
      {"session.expire_time", kInvalid,
       [](R& r) { r.mutable_session()->mutable_expire_time(); }},
      {"session.expire_time", kInvalid,
       [](R& r) {
         r.mutable_session()->mutable_expire_time()->set_seconds(INT64_MAX);
       }},
      {"session.sampling.top_p", kInvalid,
       [](R& r) { r.mutable_session()->mutable_sampling()->set_top_p(2); }},
      {"session.sampling.constraint", kLater,
       [](R& r) {
         r.mutable_session()->mutable_sampling()->mutable_constraint()->set_regex("a");
       }},
      {"session.durability", absl::StatusCode::kFailedPrecondition,
       [](R& r) { r.mutable_session()->set_durability(v1::Session::TURN); }},
      {"session.durability", kInvalid,
       [](R& r) {
         r.mutable_session()->set_durability(static_cast<v1::Session::Durability>(9));
       }},
      {"request_id", kInvalid, [](R& r) { r.set_request_id("x"); }},
      {"request_id", kInvalid,
       [](R& r) { r.set_request_id("01234567-89ab-cdef-0123-456789abcdeg"); }},
  };
  for (const Case& c : cases) {
    R request;
    c.change(request);
    v1::Session session;
    const absl::Status status = Create(rig, request, session);
    EXPECT_EQ(status.code(), c.code) << c.field << status;
    const auto detail = GetErrorDetail(status);
    ASSERT_TRUE(detail.has_value()) << c.field;
    EXPECT_EQ(detail->field, c.field) << status;
    EXPECT_FALSE(detail->reason.empty());
  }
  EXPECT_EQ(rig.engine->Stats().sessions, 1);
}

TEST(Sessions, NamesAreChecked) {
  Rig rig;
  for (const std::string name : {"", "a", "sessions", "sessions/", "sessions/../a",
                                 "models/a", "sessions/a/b"}) {
    BoundedContext context;
    v1::GetSessionRequest request;
    request.set_name(name);
    v1::Session session;
    const absl::Status status =
        client::FromGrpcStatus(rig.sessions->GetSession(&context, request, &session));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(GetErrorDetail(status)->field, "name");
  }
}

TEST(Sessions, ListAndDeleteOptions) {
  Rig rig;
  const auto list = [&](const std::function<void(v1::ListSessionsRequest&)>& change) {
    BoundedContext context;
    v1::ListSessionsRequest request;
    change(request);
    v1::ListSessionsResponse response;
    return client::FromGrpcStatus(
        rig.sessions->ListSessions(&context, request, &response));
  };
  EXPECT_TRUE(list([](auto& r) { r.set_page_size(1 << 30); }).ok());
  const absl::Status negative = list([](auto& r) { r.set_page_size(-1); });
  EXPECT_EQ(GetErrorDetail(negative)->field, "page_size");
  EXPECT_EQ(GetErrorDetail(list([](auto& r) { r.set_page_token("/"); }))->field,
            "page_token");
  EXPECT_EQ(GetErrorDetail(list([](auto& r) { r.set_filter("x"); }))->field, "filter");
  EXPECT_EQ(GetErrorDetail(list([](auto& r) { r.set_order_by("x"); }))->field,
            "order_by");

  ASSERT_TRUE(rig.client->CreateSession("chat-1", "models/toy").ok());
  ASSERT_TRUE(rig.client->CreateSession("chat-2", "models/toy").ok());
  ASSERT_TRUE(rig.client->CreateSession("other", "models/toy").ok());
  BoundedContext context;
  v1::ListSessionsRequest request;
  request.set_filter("model = models/toy AND name = \"sessions/chat-*\"");
  request.set_order_by("name desc");
  v1::ListSessionsResponse response;
  ASSERT_TRUE(rig.sessions->ListSessions(&context, request, &response).ok());
  ASSERT_THAT(response.sessions(), SizeIs(2));
  EXPECT_EQ(response.sessions(0).name(), "sessions/chat-2");
  EXPECT_EQ(response.sessions(1).name(), "sessions/chat-1");
  EXPECT_EQ(response.next_page_token(), "");

  const auto remove =
      [&](const std::function<void(v1::DeleteSessionRequest&)>& change) {
        BoundedContext context;
        v1::DeleteSessionRequest request;
        request.set_name("sessions/absent");
        change(request);
        google::protobuf::Empty response;
        return client::FromGrpcStatus(
            rig.sessions->DeleteSession(&context, request, &response));
      };
  EXPECT_TRUE(absl::IsNotFound(remove([](auto&) {})));
  EXPECT_TRUE(remove([](auto& r) { r.set_allow_missing(true); }).ok());
  const absl::Status other = remove([](auto& r) {
    r.set_name("sessions/other");
    r.set_etag("x");
  });
  EXPECT_EQ(other.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(GetErrorDetail(other)->reason, "ETAG_MISMATCH");
}

TEST(Sessions, LimitIsExactAndGivenBack) {
  Rig rig({.engine = {.sessions = 3}});
  for (const char* id : {"a", "b", "c"}) {
    ASSERT_TRUE(rig.client->CreateSession(id, "").ok());
  }
  const absl::Status full = rig.client->CreateSession("d", "").status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(GetErrorDetail(full)->reason, "SESSION_LIMIT");
  ASSERT_TRUE(rig.client->DeleteSession("b").ok());
  EXPECT_TRUE(rig.client->CreateSession("d", "").ok());
}

TEST(Models, ListAndGet) {
  Rig rig({.models = {"a", "b", "c"}});
  auto models = rig.client->ListModels();
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_THAT(*models, SizeIs(3));
  EXPECT_EQ((*models)[1].name, "b");
  EXPECT_EQ((*models)[1].model_id, "id-b");
  EXPECT_EQ((*models)[1].architecture, "toy");
  EXPECT_EQ((*models)[1].parameters, 12345);

  std::vector<std::string> names;
  v1::ListModelsRequest list;
  list.set_page_size(2);
  do {
    BoundedContext context;
    v1::ListModelsResponse page;
    ASSERT_TRUE(rig.models_stub->ListModels(&context, list, &page).ok());
    EXPECT_LE(page.models_size(), 2);
    for (const v1::Model& model : page.models()) names.push_back(model.name());
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  EXPECT_THAT(names, ElementsAre("models/a", "models/b", "models/c"));

  const auto get = [&](const std::string& name) {
    BoundedContext context;
    v1::GetModelRequest request;
    request.set_name(name);
    v1::Model model;
    return rig.models_stub->GetModel(&context, request, &model).error_code();
  };
  EXPECT_EQ(get("models/c"), grpc::StatusCode::OK);
  EXPECT_EQ(get("models/d"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(get("c"), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(get(""), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace mnemon
