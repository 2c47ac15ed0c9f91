// SPDX-License-Identifier: MIT
#include "tests/golden/golden_case.h"

#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "base/files/file.h"
#include "base/status_macros.h"
#include "model/io/import_labml.h"
#include "model/sequence/device.h"
#include "model/sequence/make_model.h"
#include "model/sequence/tensors.h"

namespace mnemon {
namespace {

at::Tensor MustRead(const Safetensors& file, const std::string& name) {
  const TensorInfo* info = file.Find(name);
  MNEMON_CHECK(info != nullptr);
  absl::StatusOr<at::Tensor> tensor = ToTensor(file, *info);
  MNEMON_CHECK(tensor.ok());
  return *tensor;
}

}  // namespace

std::optional<std::string> FindGolden(const std::string& name) {
  std::vector<std::string> roots = {MNEMON_SOURCE_DIR "/tests/golden/data/"};
  if (const char* more = std::getenv("MNEMON_TEST_DATA")) {
    roots.push_back(std::string(more) + "/golden/");
  }
  for (const std::string& root : roots) {
    if (std::filesystem::exists(root + name + "/config.json")) return root + name;
  }
  return std::nullopt;
}

absl::StatusOr<GoldenCase> GoldenCase::Load(const std::string& directory) {
  MNEMON_ASSIGN_OR_RETURN(std::string config,
                          ReadFile(directory + "/config.json", 1 << 20));
  MNEMON_ASSIGN_OR_RETURN(Safetensors io,
                          Safetensors::Read(directory + "/io.safetensors"));
  // A unit has no weights.
  const std::string own = directory + "/weights.safetensors";
  MNEMON_ASSIGN_OR_RETURN(
      Safetensors weights,
      Safetensors::Read(std::filesystem::exists(own) ? own
                                                     : directory + "/io.safetensors"));
  return GoldenCase(std::move(config), std::move(weights), std::move(io));
}

at::Tensor GoldenCase::Get(const std::string& array) const {
  return MustRead(io_, array);
}

at::Tensor GoldenCase::GetWeight(const std::string& name) const {
  return MustRead(weights_, name);
}

std::vector<std::string> GoldenCase::Arrays() const {
  std::vector<std::string> names;
  for (const TensorInfo& info : io_.header().tensors) names.push_back(info.name);
  return names;
}

absl::StatusOr<std::vector<std::pair<std::string, at::Tensor>>> GoldenCase::Gradients()
    const {
  // Gradients bear the names of the weights, so the importer translates them too when
  // each stands in the place of its weight.
  std::vector<TensorToWrite> stand_ins;
  for (const TensorInfo& info : weights_.header().tensors) {
    const TensorInfo* gradient = io_.Find("grad." + info.name);
    stand_ins.push_back(
        {info.name, info.dtype, info.shape,
         gradient != nullptr ? io_.Bytes(*gradient) : weights_.Bytes(info)});
  }
  MNEMON_ASSIGN_OR_RETURN(std::string bytes, FormatSafetensors(stand_ins));
  MNEMON_ASSIGN_OR_RETURN(const Safetensors foreign,
                          Safetensors::FromBytes(std::move(bytes)));
  MNEMON_ASSIGN_OR_RETURN(ImportedModel imported,
                          ImportLabml(config_text_, foreign, false));
  MNEMON_ASSIGN_OR_RETURN(const Safetensors ours,
                          Safetensors::FromBytes(std::move(imported.weights)));
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  for (const TensorInfo& info : ours.header().tensors) {
    // The one kind of weight that takes no part, config.json's no_grad.
    const bool unused = config_["architecture"] == "fast_weights" &&
                        info.name.find("attn.norm") != std::string::npos;
    if (unused) continue;
    MNEMON_ASSIGN_OR_RETURN(at::Tensor gradient, ToTensor(ours, info));
    gradients.emplace_back(info.name, gradient);
  }
  return gradients;
}

absl::StatusOr<std::unique_ptr<Model>> GoldenCase::Import(bool convert_000) const {
  MNEMON_ASSIGN_OR_RETURN(ImportedModel imported,
                          ImportLabml(config_text_, weights_, convert_000));
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, MakeModel(imported.config));
  MNEMON_ASSIGN_OR_RETURN(const Safetensors file,
                          Safetensors::FromBytes(std::move(imported.weights)));
  TensorViews views;
  for (const TensorInfo& tensor : file.header().tensors) {
    views.push_back(
        {.name = tensor.name,
         .shape = tensor.shape,
         .data = reinterpret_cast<const float*>(file.Bytes(tensor).data())});
  }
  CopyWeights(views, *model);
  const char* device = std::getenv("MNEMON_TEST_DEVICE");
  MNEMON_ASSIGN_OR_RETURN(const at::Device there, FindDevice(device ? device : "cpu"));
  MoveWeights(*model, there);
  RequireGradients(*model, true);
  return model;
}

std::vector<int64_t> GoldenCase::Segments() const {
  if (!Has("segments")) return {Get("tokens").size(1)};
  const at::Tensor lengths = Get("segments");
  const int64_t* begin = lengths.data_ptr<int64_t>();
  return {begin, begin + lengths.numel()};
}

}  // namespace mnemon
