// SPDX-License-Identifier: MIT
#include "train/learner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/tensors.h"
#include "model/registry.h"
#include "model/sampling/philox.h"
#include "model/sampling/sampler.h"

namespace mnemon {
namespace {

constexpr char kOptimiserFile[] = "training/optimiser.safetensors";
constexpr char kCarryFile[] = "training/carry.safetensors";
// Tokens of the validation text that start a sample when no prompt is set.
constexpr size_t kDefaultPrompt = 16;

at::Tensor IdTensor(const std::vector<int64_t>& ids, int64_t rows, int64_t columns) {
  at::Tensor tensor = at::empty({rows, columns}, at::kLong);
  std::memcpy(tensor.data_ptr<int64_t>(), ids.data(), ids.size() * sizeof(int64_t));
  return tensor;
}

// Dropout's random numbers are a function of (seed, update): nothing to save.
at::Generator DropoutGenerator(uint64_t seed, int64_t update) {
  const auto word = Philox4x32(
      {static_cast<uint32_t>(update), static_cast<uint32_t>(update >> 32), 0, 3},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return at::detail::createCPUGenerator((uint64_t{word[1]} << 32) | word[0]);
}

absl::StatusOr<std::vector<int32_t>> EncodePrompt(const TrainConfig& config,
                                                  const TextTask& task) {
  if (config.sample.prompt.empty()) {
    size_t length = std::min(kDefaultPrompt, task.validation.size());
    return std::vector<int32_t>(task.validation.begin(),
                                task.validation.begin() + length);
  }
  auto prompt = task.tokenizer->Encode(config.sample.prompt);
  if (!prompt.ok()) {
    return absl::InvalidArgumentError(
        StrCat("sample.prompt: ", std::string(prompt.status().message())));
  }
  return prompt;
}

absl::Status CopyNamed(const Safetensors& file, const NamedTensors& targets) {
  for (const auto& [name, target] : targets) {
    const TensorInfo* info = file.Find(name);
    if (info == nullptr)
      return absl::DataLossError(StrCat("tensor ", name, " is missing"));
    MNEMON_ASSIGN_OR_RETURN(at::Tensor saved, ToTensor(file, *info));
    if (saved.sizes() != target.sizes()) {
      return absl::DataLossError(StrCat("tensor ", name, " has another shape"));
    }
    target.copy_(saved);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Learner>> Learner::Create(const TrainConfig& config,
                                                         const TextTask& task) {
  MNEMON_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, EncodePrompt(config, task));
  const auto seed = static_cast<uint64_t>(config.seed);
  MNEMON_ASSIGN_OR_RETURN(
      auto training, MakeLoader(task.train, config.data, LoaderUse::kTraining, seed));
  MNEMON_ASSIGN_OR_RETURN(auto validation, MakeLoader(task.validation, config.data,
                                                      LoaderUse::kValidation, seed));
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, MakeModel(config.model));
  InitialiseWeights(*model, config.init, seed);
  return std::unique_ptr<Learner>(
      new Learner(config, task, std::move(model), std::move(training),
                  std::move(validation), std::move(prompt)));
}

Learner::Learner(const TrainConfig& config, const TextTask& task,
                 std::unique_ptr<Model> model, std::unique_ptr<Loader> training,
                 std::unique_ptr<Loader> validation, std::vector<int32_t> prompt)
    : config_(config),
      task_(task),
      model_(std::move(model)),
      parameters_(*model_),
      optimiser_(config.optimiser, parameters_.values(), parameters_.gradients()),
      training_(std::move(training)),
      validation_(std::move(validation)),
      prompt_(std::move(prompt)) {}

absl::StatusOr<at::Tensor> Learner::Loss(const Batch& batch,
                                         const ForwardOptions& options,
                                         Carry& carry) const {
  // A growing memory has an end; a pass longer than that starts it afresh.
  const int64_t room = model_->carry_spec().max_positions() - carry.position;
  if (batch.fresh || room < batch.columns) carry = Carry();
  MNEMON_ASSIGN_OR_RETURN(
      ForwardResult result,
      model_->Forward(IdTensor(batch.inputs, batch.rows, batch.columns), carry,
                      options));
  // Shuffled windows do not continue each other.
  const bool keep = config_.data.loader == LoaderKind::kSequential;
  carry = keep ? result.carry.Detached() : Carry();
  return at::cross_entropy_loss(
      result.logits.flatten(0, 1),
      IdTensor(batch.targets, batch.rows, batch.columns).flatten());
}

absl::StatusOr<UpdateResult> Learner::Update(double lr) {
  const Batch batch = training_->Next();
  ForwardOptions options;
  options.dropout =
      DropoutGenerator(static_cast<uint64_t>(config_.seed), optimiser_.steps());
  parameters_.ZeroGradients();
  MNEMON_ASSIGN_OR_RETURN(at::Tensor loss, Loss(batch, options, carry_));
  UpdateResult result = {.loss = loss.item<double>(),
                         .tokens = batch.rows * batch.columns};
  loss.backward();
  result.gradient_norm = parameters_.ClipGradients(config_.clip);
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) {
    return absl::OutOfRangeError(StrCat(
        "the loss is ", result.loss, " and the gradient norm ", result.gradient_norm));
  }
  optimiser_.Step(lr);
  return result;
}

absl::StatusOr<double> Learner::Validate() const {
  c10::AutoGradMode no_graph(false);
  const int64_t available = validation_->batches_per_pass();
  const int64_t wanted = config_.validation_batches;
  const int64_t count = wanted == 0 ? available : std::min(wanted, available);
  // Batches that continue each other cannot be picked here and there.
  const bool spread = config_.data.loader == LoaderKind::kShuffled;
  Carry carry;
  double sum = 0;
  int64_t tokens = 0;
  for (int64_t i = 0; i < count; ++i) {
    Batch batch = validation_->Get(0, spread ? i * available / count : i);
    MNEMON_ASSIGN_OR_RETURN(at::Tensor loss, Loss(batch, {}, carry));
    const int64_t n = batch.rows * batch.columns;
    sum += loss.item<double>() * static_cast<double>(n);
    tokens += n;
  }
  return sum / static_cast<double>(tokens);
}

absl::StatusOr<std::string> Learner::Sample() const {
  c10::AutoGradMode no_graph(false);
  const SamplingParams params = {.temperature = config_.sample.temperature,
                                 .seed = static_cast<uint64_t>(config_.seed)};
  SamplerScratch scratch;
  std::vector<int32_t> text = prompt_;
  std::vector<int64_t> input(prompt_.begin(), prompt_.end());
  Carry carry;
  const int64_t limit = model_->carry_spec().max_positions();
  for (int64_t i = 0; i < config_.sample.tokens; ++i) {
    const auto length = static_cast<int64_t>(input.size());
    if (length > limit - carry.position) break;
    MNEMON_ASSIGN_OR_RETURN(ForwardResult result,
                            model_->Forward(IdTensor(input, 1, length), carry));
    carry = std::move(result.carry);
    const at::Tensor last =
        result.logits.select(0, 0).select(0, length - 1).contiguous();
    MNEMON_ASSIGN_OR_RETURN(
        int32_t token,
        mnemon::Sample({last.data_ptr<float>(), static_cast<size_t>(last.numel())},
                       params, static_cast<int64_t>(text.size()), scratch));
    text.push_back(token);
    input = {token};
  }
  return task_.tokenizer->Decode(text);
}

int64_t Learner::parameter_count() const { return CountParameters(*model_); }

absl::Status Learner::Save(CheckpointContent& content) const {
  content["config.json"] = ConfigToJson(model_->config());
  content["tokenizer.json"] = task_.tokenizer->ToJson();
  MNEMON_ASSIGN_OR_RETURN(content["model.safetensors"], FormatWeights(*model_));
  NamedTensors optimiser;
  for (const auto& [name, buffer] : optimiser_.Buffers()) {
    NamedTensors slices = parameters_.Slices(buffer, name + ".");
    optimiser.insert(optimiser.end(), slices.begin(), slices.end());
  }
  MNEMON_ASSIGN_OR_RETURN(content[kOptimiserFile], FormatTensors(optimiser));
  if (carry_.fresh()) return absl::OkStatus();
  // The position is a tensor of its own, so that the file is complete.
  NamedTensors carry = {{"position", IdTensor({carry_.position}, 1, 1)}};
  for (size_t i = 0; i < carry_.tensors.size(); ++i) {
    carry.emplace_back(StrCat("carry.", model_->carry_spec().entries[i].name),
                       carry_.tensors[i].contiguous());
  }
  MNEMON_ASSIGN_OR_RETURN(content[kCarryFile], FormatTensors(carry));
  return absl::OkStatus();
}

absl::Status Learner::LoadOptimiser(const std::string& file) {
  MNEMON_ASSIGN_OR_RETURN(Safetensors saved, Safetensors::FromBytes(file));
  for (const auto& [name, buffer] : optimiser_.Buffers()) {
    MNEMON_RETURN_IF_ERROR(CopyNamed(saved, parameters_.Slices(buffer, name + ".")));
  }
  return absl::OkStatus();
}

absl::Status Learner::LoadCarry(const std::string& file) {
  MNEMON_ASSIGN_OR_RETURN(Safetensors saved, Safetensors::FromBytes(file));
  at::Tensor position = at::empty({1, 1}, at::kLong);
  MNEMON_RETURN_IF_ERROR(CopyNamed(saved, {{"position", position}}));
  Carry carry;
  carry.position = position.item<int64_t>();
  for (const StateEntry& entry : model_->carry_spec().entries) {
    const std::string name = StrCat("carry.", entry.name);
    const TensorInfo* info = saved.Find(name);
    if (info == nullptr)
      return absl::DataLossError(StrCat("tensor ", name, " is missing"));
    MNEMON_ASSIGN_OR_RETURN(at::Tensor tensor, ToTensor(saved, *info));
    carry.tensors.push_back(tensor);
  }
  carry_ = std::move(carry);
  return absl::OkStatus();
}

absl::Status Learner::Load(const std::string& dir, int64_t updates,
                           const LoaderCursor& cursor) {
  c10::AutoGradMode no_graph(false);
  MNEMON_ASSIGN_OR_RETURN(CheckpointFiles files, ReadCheckpoint(dir));
  if (files.config != config_.model) {
    return absl::FailedPreconditionError(
        StrCat(dir, "/config.json describes another model than this run"));
  }
  if (cursor.batch < 0 || cursor.batch >= training_->batches_per_pass() ||
      cursor.pass < 0) {
    return absl::DataLossError(StrCat(dir, ": the data cursor is outside the text"));
  }
  MNEMON_RETURN_IF_ERROR(
      CopyNamed(files.weights, parameters_.Slices(parameters_.values(), "")));
  MNEMON_ASSIGN_OR_RETURN(std::string optimiser, ReadTrainingFile(dir, kOptimiserFile));
  MNEMON_RETURN_IF_ERROR(LoadOptimiser(optimiser));
  optimiser_.set_steps(updates);
  training_->Seek(cursor);
  carry_ = Carry();
  absl::StatusOr<std::string> carry = ReadTrainingFile(dir, kCarryFile);
  if (absl::IsNotFound(carry.status())) return absl::OkStatus();
  MNEMON_RETURN_IF_ERROR(carry.status());
  return LoadCarry(*carry);
}

}  // namespace mnemon
