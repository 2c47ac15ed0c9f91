// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include "base/error.h"
#include "base/strings.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/status_mapping.h"
#include "server/service/messages/messages.h"

namespace mnemon {
namespace {

namespace api = grpc::reflection::v1alpha;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

constexpr int kMostStreams = 64;

// `file` after all that it imports, each once.
void AddFiles(const FileDescriptor* file, std::set<const FileDescriptor*>& added,
              api::FileDescriptorResponse& response) {
  if (!added.insert(file).second) return;
  for (int i = 0; i < file->dependency_count(); ++i) {
    AddFiles(file->dependency(i), added, response);
  }
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response.add_file_descriptor_proto(proto.SerializeAsString());
}

const FileDescriptor* FileOfExtension(const api::ExtensionRequest& request) {
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  const auto* type = pool->FindMessageTypeByName(request.containing_type());
  if (type == nullptr) return nullptr;
  const auto* extension = pool->FindExtensionByNumber(type, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

// The file that `request` asks for; null for one that is not there.
const FileDescriptor* FindFile(const api::ServerReflectionRequest& request) {
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  switch (request.message_request_case()) {
    case api::ServerReflectionRequest::kFileByFilename:
      return pool->FindFileByName(request.file_by_filename());
    case api::ServerReflectionRequest::kFileContainingSymbol:
      return pool->FindFileContainingSymbol(request.file_containing_symbol());
    case api::ServerReflectionRequest::kFileContainingExtension:
      return FileOfExtension(request.file_containing_extension());
    default:
      return nullptr;
  }
}

void SetError(grpc::StatusCode code, const std::string& text,
              api::ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(text);
}

void AnswerExtensions(const std::string& name,
                      api::ServerReflectionResponse& response) {
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  const auto* type = pool->FindMessageTypeByName(name);
  if (type == nullptr) {
    return SetError(grpc::StatusCode::NOT_FOUND, "no such message", response);
  }
  auto& answer = *response.mutable_all_extension_numbers_response();
  answer.set_base_type_name(name);
  std::vector<const google::protobuf::FieldDescriptor*> extensions;
  pool->FindAllExtensions(type, &extensions);
  for (const auto* extension : extensions) {
    answer.add_extension_number(extension->number());
  }
}

void AnswerRequest(const std::vector<std::string>& services,
                   const api::ServerReflectionRequest& request,
                   api::ServerReflectionResponse& response) {
  response.Clear();
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case api::ServerReflectionRequest::kListServices:
      ReserveMore(services.size(),
                  *response.mutable_list_services_response()->mutable_service());
      for (const std::string& name : services) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      return;
    case api::ServerReflectionRequest::kAllExtensionNumbersOfType:
      return AnswerExtensions(request.all_extension_numbers_of_type(), response);
    case api::ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      return SetError(grpc::StatusCode::INVALID_ARGUMENT, "no message_request",
                      response);
    default:
      break;
  }
  const FileDescriptor* file = FindFile(request);
  if (file == nullptr) {
    return SetError(grpc::StatusCode::NOT_FOUND, "no such file or symbol", response);
  }
  std::set<const FileDescriptor*> added;
  AddFiles(file, added, *response.mutable_file_descriptor_response());
}

using ReflectionStream = grpc::ServerBidiReactor<api::ServerReflectionRequest,
                                                 api::ServerReflectionResponse>;

// One answer per request, and the next request only when the answer is on its way. gRPC
// makes its calls one after the other.
class ReflectionReactor final : public ReflectionStream {
 public:
  // `streams`: of all calls.
  ReflectionReactor(const std::vector<std::string>& services, std::atomic<int>& streams,
                    grpc::CallbackServerContext* context)
      : services_(services), streams_(streams), context_(context) {
    if (streams_.fetch_add(1) < kMostStreams) {
      StartRead(&request_);
    } else {
      End(MakeError(absl::StatusCode::kResourceExhausted,
                    StrCat("all ", kMostStreams, " streams of reflection are taken"),
                    {.reason = "REFLECTION_LIMIT",
                     .retry_after = std::chrono::milliseconds(1000)}));
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    const absl::Status answered =
        Guarded([&] { AnswerRequest(services_, request_, response_); });
    if (!answered.ok()) return End(answered);
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    StartRead(&request_);
  }

  void OnDone() override {
    streams_.fetch_sub(1);
    delete this;
  }

 private:
  void End(const absl::Status& status) { Finish(ToGrpcStatus(status, {}, context_)); }

  const std::vector<std::string>& services_;
  std::atomic<int>& streams_;
  grpc::CallbackServerContext* const context_;
  api::ServerReflectionRequest request_;
  api::ServerReflectionResponse response_;
};

class ReflectionService final : public api::ServerReflection::CallbackService {
 public:
  explicit ReflectionService(std::vector<std::string> services)
      : services_(std::move(services)) {
    for (const auto* message : {grpc::health::v1::HealthCheckRequest::descriptor(),
                                api::ServerReflectionRequest::descriptor()}) {
      services_.push_back(message->file()->service(0)->full_name());
    }
    std::sort(services_.begin(), services_.end());
  }

  ReflectionStream* ServerReflectionInfo(
      grpc::CallbackServerContext* context) override {
    return new ReflectionReactor(services_, streams_, context);
  }

 private:
  std::vector<std::string> services_;  // constant after construction
  std::atomic<int> streams_{0};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeReflectionService(
    std::vector<std::string> services) {
  return std::make_unique<ReflectionService>(std::move(services));
}

}  // namespace mnemon
