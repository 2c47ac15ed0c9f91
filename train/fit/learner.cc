// SPDX-License-Identifier: MIT
#include "train/fit/learner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "base/check.h"
#include "base/error.h"
#include "base/partition.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/tensor_names.h"
#include "model/sampling/sampler.h"
#include "model/sequence/device.h"
#include "model/sequence/make_model.h"
#include "model/sequence/tensors.h"
#include "train/data/draws.h"
#include "train/data/id_tensor.h"
#include "train/fit/start.h"
#include "train/parallel/flat_operations.h"
#include "train/parallel/gradient_sum.h"

namespace mnemon {
namespace {

// Below training/.
constexpr char kOptimiserFile[] = "optimiser.safetensors";
constexpr char kCarryFile[] = "carry.safetensors";

absl::Status CopyNamed(const Safetensors& file, const NamedTensorList& targets) {
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

// The embedding, where the task has one.
void SetFeatures(const std::vector<float>& features, Model& model) {
  if (features.empty()) return;
  c10::AutoGradMode no_graph(false);
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    if (name != names::Weight(names::kEmbed)) return;
    MNEMON_CHECK(weight.numel() == static_cast<int64_t>(features.size()));
    std::copy(features.begin(), features.end(), weight.data_ptr<float>());
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Learner>> Learner::Create(const TrainConfig& config,
                                                         const Task& task,
                                                         WorkerPool& pool,
                                                         ProcessGroup& group,
                                                         at::Device device) {
  MNEMON_ASSIGN_OR_RETURN(std::vector<int32_t> prompt,
                          task.Prompt(config.sample.prompt));
  const auto seed = static_cast<uint64_t>(config.seed);
  MNEMON_ASSIGN_OR_RETURN(Curriculum training,
                          Curriculum::Create(task, config.data, seed));
  MNEMON_ASSIGN_OR_RETURN(auto validation,
                          task.MakeLoader(config.data, LoaderUse::kValidation, seed));
  MNEMON_ASSIGN_OR_RETURN(auto test,
                          task.MakeLoader(config.data, LoaderUse::kTest, seed));
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Model> first, MakeModel(config.model));
  InitialiseWeights(*first, config.init, seed);
  SetFeatures(task.Features(config.model.d_model, seed), *first);
  if (!config.from.empty()) {
    MNEMON_RETURN_IF_ERROR(StartFrom(config.from, task, config.model, *first));
  }
  MoveWeights(*first, device);
  Parameters parameters(*first);
  parameters.Share(*first);
  MNEMON_ASSIGN_OR_RETURN(auto gradients,
                          MakeBatchGradients(config, *first, parameters, pool, group));
  return std::unique_ptr<Learner>(new Learner({.config = config,
                                               .task = task,
                                               .pool = pool,
                                               .group = group,
                                               .model = std::move(first),
                                               .parameters = std::move(parameters),
                                               .gradients = std::move(gradients),
                                               .training = std::move(training),
                                               .validation = std::move(validation),
                                               .test = std::move(test),
                                               .prompt = std::move(prompt)}));
}

Learner::Learner(Parts parts)
    : config_(parts.config),
      task_(parts.task),
      pool_(parts.pool),
      group_(parts.group),
      model_(std::move(parts.model)),
      parameters_(std::move(parts.parameters)),
      gradients_(std::move(parts.gradients)),
      optimiser_(config_.optimiser, parameters_.values(), gradients_->buffer()),
      training_(std::move(parts.training)),
      validation_(std::move(parts.validation)),
      test_(std::move(parts.test)),
      prompt_(std::move(parts.prompt)) {
  always_update_ = optimiser_.ChangingBlocks();
}

absl::StatusOr<UpdateResult> Learner::Update(double lr) {
  const CurriculumCursor cursor = training_.cursor();
  MNEMON_ASSIGN_OR_RETURN(const Batch batch, training_.Next());
  const uint64_t key = DrawBits(static_cast<uint64_t>(config_.seed), 0,
                                DrawPurpose::kDropout, optimiser_.steps());
  absl::StatusOr<BatchGradient> computed = gradients_->Compute(batch, key);
  if (!computed.ok()) {
    training_.Seek(cursor);
    return computed.status();
  }
  const BatchGradient& gradient = *computed;
  const UpdateResult result = {.loss = gradient.loss,
                               .gradient_norm = gradient.norm,
                               .tokens = batch.rows * batch.columns};
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) {
    training_.Seek(cursor);
    return absl::OutOfRangeError(StrCat(
        "the loss is ", result.loss, " and the gradient norm ", result.gradient_norm));
  }
  optimiser_.BeginStep();
  const double scale = gradient.scale * ClipScale(gradient.norm, config_.clip);
  const std::vector<int64_t> blocks = BlocksToUpdate();
  const int64_t size = parameters_.values().numel();
  MNEMON_RETURN_IF_ERROR(pool_.Run([&](int w) {
    const Part own = PartOf(static_cast<int64_t>(blocks.size()), w, pool_.size());
    for (int64_t i = own.begin; i < own.end;) {
      const int64_t first = blocks[i];
      int64_t end = first;  // of a run of blocks
      while (i < own.end && blocks[i] == end) ++i, ++end;
      optimiser_.Apply(lr, scale, first * kFlatBlock, std::min(size, end * kFlatBlock));
    }
    return absl::OkStatus();
  }));
  return result;
}

std::vector<int64_t> Learner::BlocksToUpdate() const {
  const std::vector<int64_t>& written = gradients_->written_blocks();
  std::vector<int64_t> blocks;
  std::set_union(written.begin(), written.end(), always_update_.begin(),
                 always_update_.end(), std::back_inserter(blocks));
  return blocks;
}

absl::StatusOr<Evaluation> Learner::Validate() {
  const int64_t available = validation_->batches_per_pass();
  const int64_t wanted = config_.validation_batches;
  return Evaluate(*validation_, wanted == 0 ? available : std::min(wanted, available));
}

absl::StatusOr<std::optional<Evaluation>> Learner::Test() {
  if (test_ == nullptr) return std::nullopt;
  return Evaluate(*test_, test_->batches_per_pass());
}

absl::StatusOr<Evaluation> Learner::Evaluate(Loader& loader, int64_t count) {
  const int64_t available = loader.batches_per_pass();
  // Batches that continue each other cannot be picked here and there.
  const bool spread = config_.data.loader == LoaderKind::kShuffled;
  return gradients_->Evaluate(
      [&](int64_t i) { return loader.Get(0, spread ? i * available / count : i); },
      count);
}

absl::StatusOr<std::string> Learner::Sample() const {
  if (prompt_.empty()) return std::string();
  c10::AutoGradMode no_graph(false);
  const SamplingParams params = {
      .temperature = static_cast<float>(config_.sample.temperature),
      .seed = static_cast<uint64_t>(config_.seed)};
  SamplerScratch scratch;
  std::vector<int32_t> text = prompt_;
  std::vector<int64_t> input(prompt_.begin(), prompt_.end());
  Carry carry;
  const int64_t limit = model_->carry_spec().max_positions();
  for (int64_t i = 0; i < config_.sample.tokens; ++i) {
    const auto count = static_cast<int64_t>(input.size());
    if (count > limit - carry.position) break;
    at::Tensor last;
    // In segments as in training: a longer one may reach back further than
    // Transformer-XL has positions.
    for (int64_t begin = 0; begin < count; begin += config_.data.seq_len) {
      const int64_t length = std::min(config_.data.seq_len, count - begin);
      MNEMON_ASSIGN_OR_RETURN(
          ForwardResult result,
          model_->Forward(IdTensor(input.data() + begin, 1, length), carry));
      carry = std::move(result.carry);
      last = result.logits.select(0, 0).select(0, length - 1).to(at::kCPU).contiguous();
    }
    const absl::StatusOr<int32_t> token =
        mnemon::Sample({last.data_ptr<float>(), static_cast<size_t>(last.numel())},
                       params, static_cast<int64_t>(text.size()), scratch);
    if (!token.ok()) {
      // If the model diverges, the loss says so.
      const std::optional<ErrorDetail> detail = GetErrorDetail(token.status());
      if (detail && detail->reason == "NON_FINITE_LOGITS") break;
      return token.status();
    }
    text.push_back(*token);
    input = {*token};
  }
  return task_.tokenizer()->Decode(text);
}

int64_t Learner::parameter_count() const { return CountParameters(*model_); }

absl::Status Learner::Save(CheckpointContent& content) const {
  MNEMON_ASSIGN_OR_RETURN(const Carry carry, gradients_->TrainingCarry());
  if (!group_.first()) return absl::OkStatus();
  content["config.json"] = ConfigToJson(config_.model);
  if (task_.tokenizer() != nullptr) {
    content["tokenizer.json"] = task_.tokenizer()->ToJson();
  }
  MNEMON_ASSIGN_OR_RETURN(content["model.safetensors"], FormatWeights(*model_));
  NamedTensorList optimiser;
  for (const auto& [name, buffer] : optimiser_.Buffers()) {
    NamedTensorList slices = parameters_.Slices(buffer, name + ".");
    optimiser.insert(optimiser.end(), slices.begin(), slices.end());
  }
  MNEMON_ASSIGN_OR_RETURN(content[StrCat("training/", kOptimiserFile)],
                          FormatTensors(optimiser));
  if (carry.fresh()) return absl::OkStatus();
  MNEMON_ASSIGN_OR_RETURN(content[StrCat("training/", kCarryFile)], FormatCarry(carry));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Learner::FormatCarry(const Carry& carry) const {
  // The position is a tensor of its own, so that the file is complete.
  NamedTensorList saved = {{"position", IdTensor(&carry.position, 1, 1)}};
  for (size_t i = 0; i < carry.tensors.size(); ++i) {
    saved.emplace_back(StrCat("carry.", model_->carry_spec().entries[i].name),
                       carry.tensors[i]);
  }
  return FormatTensors(saved);
}

absl::Status Learner::LoadOptimiser(const std::string& file) {
  MNEMON_ASSIGN_OR_RETURN(Safetensors saved, Safetensors::FromBytes(file));
  for (const auto& [name, buffer] : optimiser_.Buffers()) {
    MNEMON_RETURN_IF_ERROR(CopyNamed(saved, parameters_.Slices(buffer, name + ".")));
  }
  return absl::OkStatus();
}

absl::StatusOr<Carry> Learner::ParseCarry(const std::string& file) const {
  if (file.empty()) return Carry();
  MNEMON_ASSIGN_OR_RETURN(Safetensors saved, Safetensors::FromBytes(file));
  at::Tensor position = at::empty({1, 1}, at::kLong);
  MNEMON_RETURN_IF_ERROR(CopyNamed(saved, {{"position", position}}));
  Carry carry{.position = position.item<int64_t>(), .tensors = {}};
  for (const StateEntry& entry : model_->carry_spec().entries) {
    const std::string name = StrCat("carry.", entry.name);
    const TensorInfo* info = saved.Find(name);
    if (info == nullptr || info->shape.empty() ||
        info->shape[0] != config_.data.batch) {
      return absl::DataLossError(
          StrCat("tensor ", name, " is missing or of wrong shape"));
    }
    MNEMON_ASSIGN_OR_RETURN(at::Tensor all, ToTensor(saved, *info));
    carry.tensors.push_back(all.to(device()));
  }
  return carry;
}

absl::Status Learner::Load(const std::string& dir, int64_t updates,
                           const CurriculumCursor& cursor) {
  c10::AutoGradMode no_graph(false);
  MNEMON_ASSIGN_OR_RETURN(CheckpointFiles files, ReadCheckpoint(dir));
  if (files.config != config_.model) {
    return absl::FailedPreconditionError(
        StrCat(dir, "/config.json describes another model than this run"));
  }
  if (!training_.Has(cursor)) {
    return absl::DataLossError(StrCat(dir, ": the data cursor is outside the data"));
  }
  const absl::Status copied =
      CopyNamed(files.weights, parameters_.Slices(parameters_.values(), ""));
  // Faults of files that do not match the manifest are not worth reporting.
  MNEMON_RETURN_IF_ERROR(files.verified.get().status());
  if (!copied.ok()) return Annotated(copied, Quoted(dir + "/model.safetensors"));
  MNEMON_ASSIGN_OR_RETURN(std::string optimiser, ReadTrainingFile(dir, kOptimiserFile));
  const auto named = [&](const absl::Status& status, const char* file) {
    return status.ok() ? status
                       : Annotated(status, Quoted(StrCat(dir, "/training/", file)));
  };
  MNEMON_RETURN_IF_ERROR(named(LoadOptimiser(optimiser), kOptimiserFile));
  optimiser_.set_steps(updates);
  always_update_ = optimiser_.ChangingBlocks();
  training_.Seek(cursor);
  absl::StatusOr<std::string> file = ReadTrainingFile(dir, kCarryFile);
  if (absl::IsNotFound(file.status())) file = std::string();
  MNEMON_RETURN_IF_ERROR(file.status());
  const absl::StatusOr<Carry> carry = ParseCarry(*file);
  MNEMON_RETURN_IF_ERROR(named(carry.status(), kCarryFile));
  loaded_carry_ = *std::move(file);
  gradients_->SetTrainingCarry(*carry);
  return absl::OkStatus();
}

absl::Status Learner::Distribute() {
  std::string file = std::exchange(loaded_carry_, {});
  if (group_.size() == 1) return absl::OkStatus();
  c10::AutoGradMode no_graph(false);
  const CurriculumCursor cursor = training_.cursor();
  const int64_t counts[] = {optimiser_.steps(), cursor.stage, cursor.within.pass,
                            cursor.within.batch};
  const at::Tensor numbers = IdTensor(counts, 1, 4);
  MNEMON_RETURN_IF_ERROR(group_.Broadcast(0, numbers));
  MNEMON_RETURN_IF_ERROR(group_.Broadcast(0, parameters_.values()));
  for (const auto& [name, buffer] : optimiser_.Buffers()) {
    MNEMON_RETURN_IF_ERROR(group_.Broadcast(0, buffer));
  }
  MNEMON_RETURN_IF_ERROR(group_.BroadcastBytes(file));
  MNEMON_ASSIGN_OR_RETURN(const Carry carry, ParseCarry(file));
  gradients_->SetTrainingCarry(carry);
  const auto* const given = numbers.data_ptr<int64_t>();
  optimiser_.set_steps(given[0]);
  always_update_ = optimiser_.ChangingBlocks();
  training_.Seek({.stage = given[1], .within = {.pass = given[2], .batch = given[3]}});
  return absl::OkStatus();
}

}  // namespace mnemon
