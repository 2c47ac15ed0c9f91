// SPDX-License-Identifier: MIT
// Messages that no client of ours sends: unknown fields, millions of integers, deep
// nesting, bytes that swell when decompressed.
#include <string>

#include <grpcpp/generic/generic_stub.h>

#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

v1::GenerateRequest ValidCall() {
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(1);
  request.mutable_stopping()->set_max_tokens(3);
  return request;
}

grpc::Status CallWith(Rig& rig, const v1::GenerateRequest& request,
                      grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
  BoundedContext context;
  context.set_compression_algorithm(compression);
  auto reader = rig.generation->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  return reader->Finish();
}

// GetSession with `bytes` as its request.
grpc::Status CallWithBytes(Rig& rig, const std::string& bytes) {
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::GenericStub stub(rig.channel);
  BoundedContext context;
  grpc::CompletionQueue queue;
  grpc::ByteBuffer response;
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  auto call = stub.PrepareUnaryCall(&context, "/mnemon.v1.Sessions/GetSession", request,
                                    &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}

TEST(Hostile, UnknownFieldsAreIgnored) {
  Rig rig;
  v1::GenerateRequest request = ValidCall();
  for (google::protobuf::Message* message :
       std::initializer_list<google::protobuf::Message*>{
           &request, request.mutable_prompt(), request.mutable_stopping()}) {
    auto* fields = message->GetReflection()->MutableUnknownFields(message);
    fields->AddVarint(1000, 7);
    fields->AddLengthDelimited(536870911, "text of a later version");
  }
  const grpc::Status status = CallWith(rig, request);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(Hostile, MillionsOfIntegersAreRefused) {
  Rig rig;
  v1::GenerateRequest request = ValidCall();
  auto& ids = *request.mutable_prompt()->mutable_tokens()->mutable_ids();
  // As many as a message takes, one byte each: too many for the context.
  ids.Resize(4'000'000, 1);
  const grpc::StatusCode many = CallWith(rig, request).error_code();
  EXPECT_TRUE(many == grpc::StatusCode::FAILED_PRECONDITION ||
              many == grpc::StatusCode::INVALID_ARGUMENT)
      << many;
  ids.Resize(10'000'000, 1);
  EXPECT_EQ(CallWith(rig, request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(CallWith(rig, ValidCall()).ok());
}

TEST(Hostile, DeepNestingIsAParseError) {
  Rig rig;
  // Groups of an unknown field 15: the only thing that nests in any message.
  const auto nested = [](size_t depth) {
    return std::string(depth, '\x7b') + std::string(depth, '\x7c');
  };
  EXPECT_EQ(CallWithBytes(rig, nested(50)).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT)
      << "parsed, and without a name";
  for (const size_t depth : {size_t{101}, size_t{1'000'000}}) {
    const grpc::Status status = CallWithBytes(rig, nested(depth));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << depth;
    EXPECT_EQ(status.error_message(), "the request cannot be parsed");
  }
  EXPECT_TRUE(CallWith(rig, ValidCall()).ok());
}

// 32 MiB that travel as 32 KiB: refused before they swell.
TEST(Hostile, CompressedMessagesAreRefused) {
  Rig rig;
  v1::GenerateRequest request = ValidCall();
  request.mutable_prompt()->set_text(std::string(size_t{32} << 20, 'a'));
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    EXPECT_EQ(CallWith(rig, request, algorithm).error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_TRUE(CallWith(rig, ValidCall()).ok());
}

}  // namespace
}  // namespace mnemon
