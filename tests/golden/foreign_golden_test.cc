// SPDX-License-Identifier: MIT
// Directories of Hugging Face against the logits of transformers, in both forms.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include "base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/foreign.h"
#include "model/io/safetensors.h"
#include "model/load/model_files.h"
#include "model/operations/cpu_operations.h"
#include "model/program/make_decoder.h"
#include "model/sequence/described_model.h"
#include "model/sequence/make_model.h"
#include "nlohmann/json.hpp"
#include "tests/golden/golden_case.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

// A directory, read as every command reads it.
class ForeignCase {
 public:
  explicit ForeignCase(const std::string& dir)
      : dir_(dir), files_(ReadModelFiles(dir)) {
    if (files_.ok()) views_ = ViewWeights(*files_);
  }

  absl::Status status() {
    return files_.ok() ? files_->verified.get().status() : files_.status();
  }
  const ModelFiles& files() const { return *files_; }
  const TensorViews& views() const { return views_; }
  Safetensors io() const { return *Safetensors::Read(dir_ + "/io.safetensors"); }
  double tolerance() const {
    const auto json = nlohmann::json::parse(*ReadFile(dir_ + "/case.json", 1 << 20));
    return json["tolerance"]["logits"].get<double>();
  }

 private:
  const std::string dir_;
  absl::StatusOr<ModelFiles> files_;
  TensorViews views_;
};

double Farthest(const std::vector<float>& a, const float* b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double away = std::abs(double{a[i]} - b[i]);
    most = std::isnan(away) ? HUGE_VAL : std::max(most, away);
  }
  return most;
}

// Committed, or below $MNEMON_TEST_DATA/golden_hf/models.
std::string FindForeign(const std::string& name) {
  const std::string committed = MNEMON_SOURCE_DIR "/tests/golden/data/hf/" + name;
  const char* const more = std::getenv("MNEMON_TEST_DATA");
  if (fs::exists(committed) || more == nullptr) return committed;
  return std::string(more) + "/golden_hf/models/" + name;
}

class ForeignGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string dir = FindForeign(GetParam());
    if (!fs::exists(dir)) GTEST_SKIP() << "no " << dir;
    case_.emplace(dir);
    const absl::Status read = case_->status();
    ASSERT_TRUE(read.ok()) << read;
    io_ = case_->io();
    const TensorInfo& ids = *io_.Find("tokens");
    batch_ = ids.shape[0];
    time_ = ids.shape[1];
    tokens_ = *io_.Ints(ids);
    logits_ = *io_.Floats(*io_.Find("logits"));
  }

  const ModelDescription& model() const { return case_->files().description; }
  // Without a format: that of the files.
  std::unique_ptr<Decoder> MakeStepForm(const std::string& target,
                                        std::optional<WeightFormat> format = {}) const {
    return *MakeDecoder(model(), case_->views(), {.format = format, .target = target});
  }
  // Rows of logits of one sequence, in pieces of lengths that take turns from 1 on to
  // `longest`.
  std::vector<float> Run(Decoder& decoder, int64_t sequence, int64_t longest) const {
    const auto arena = *StateArena::Create(decoder.spec(), {.slots = 1});
    const int32_t slot = *arena->Acquire();
    std::vector<float> found(static_cast<size_t>(time_ * model().vocab));
    for (int64_t at = 0, step = 1; at < time_; at += step, step = step % longest + 1) {
      const int64_t count = std::min(step, time_ - at), first = sequence * time_ + at;
      const std::vector<int32_t> piece(tokens_.begin() + first,
                                       tokens_.begin() + first + count);
      const Segment segment = {
          .slot = slot, .position = at, .tokens = piece, .logits = LogitsMode::kAll};
      const absl::Status done =
          decoder.Step({&segment, 1}, *arena, found.data() + at * model().vocab);
      EXPECT_TRUE(done.ok()) << done;
    }
    return found;
  }
  std::span<const float> Wanted(int64_t sequence) const {
    const auto rows = static_cast<size_t>(time_ * model().vocab);
    return std::span(logits_).subspan(static_cast<size_t>(sequence) * rows, rows);
  }

  std::optional<ForeignCase> case_;
  Safetensors io_;
  int64_t batch_ = 0, time_ = 0;
  std::vector<int64_t> tokens_;
  std::vector<float> logits_;
};

TEST_P(ForeignGolden, TheSequenceFormHasItsLogits) {
  const auto sequence = MakeDescribedModel(model());
  CopyWeights(case_->views(), *sequence);
  const at::Tensor input = at::from_blob(tokens_.data(), {batch_, time_}, at::kLong);
  const auto whole = sequence->Forward(input, {}, {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const at::Tensor found = whole->logits.contiguous();
  EXPECT_LE(Farthest(logits_, found.data_ptr<float>()), case_->tolerance());
}

// The files are of bf16 or narrower floats, which bf16 and fp32 hold as they are: then
// both give the same bits.
TEST_P(ForeignGolden, TheStepFormHasItsLogitsAndTheSameBitsInAnySplit) {
  const std::unique_ptr<Decoder> best = MakeStepForm("");
  const std::unique_ptr<Decoder> wide = MakeStepForm("", WeightFormat::kFp32);
  for (int64_t b = 0; b < batch_; ++b) {
    const std::vector<float> found = Run(*best, b, 5);
    EXPECT_LE(Farthest(found, Wanted(b).data()), case_->tolerance()) << b;
    EXPECT_EQ(found, Run(*best, b, 1)) << b;
    EXPECT_EQ(found, Run(*wide, b, 7)) << b;
    for (const std::string& target : CpuTargets()) {
      if (target == ReferenceOperations().target) continue;
      EXPECT_EQ(found, Run(*MakeStepForm(target), b, 30)) << target;
    }
  }
}

// Farther from them, but not another model.
TEST_P(ForeignGolden, Int8HasTheSameBitsInAnySplit) {
  const std::unique_ptr<Decoder> best = MakeStepForm("", WeightFormat::kInt8);
  for (int64_t b = 0; b < batch_; ++b) {
    const std::vector<float> found = Run(*best, b, 5);
    EXPECT_LE(Farthest(found, Wanted(b).data()), 1.5) << b;
    EXPECT_EQ(found, Run(*best, b, 1)) << b;
    for (const std::string& target : CpuTargets()) {
      if (target == ReferenceOperations().target) continue;
      EXPECT_EQ(found, Run(*MakeStepForm(target, WeightFormat::kInt8), b, 30))
          << target;
    }
  }
}

TEST_P(ForeignGolden, TheStepFormGoesOnWithItsTokens) {
  const std::unique_ptr<Decoder> decoder = MakeStepForm("");
  const auto arena =
      *StateArena::Create(decoder->spec(), {.slots = static_cast<int32_t>(batch_)});
  const std::vector<int64_t> wanted = *io_.Ints(*io_.Find("greedy"));
  const auto count = static_cast<int64_t>(wanted.size()) / batch_;
  for (int64_t b = 0; b < batch_; ++b) {
    const int32_t slot = *arena->Acquire();
    std::vector<int32_t> piece(tokens_.begin() + b * time_,
                               tokens_.begin() + (b + 1) * time_);
    std::vector<float> logits(static_cast<size_t>(model().vocab));
    for (int64_t i = 0; i < count; ++i) {
      for (size_t at = 0; at < piece.size(); at += kMaxChunk) {
        const auto some = std::span(piece).subspan(
            at, std::min<size_t>(kMaxChunk, piece.size() - at));
        const Segment segment = {.slot = slot,
                                 .position = arena->length(slot),
                                 .tokens = some,
                                 .logits = LogitsMode::kLast};
        ASSERT_TRUE(decoder->Step({&segment, 1}, *arena, logits.data()).ok());
      }
      piece = {static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
      EXPECT_EQ(piece[0], wanted[static_cast<size_t>(b * count + i)]) << b << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Public, ForeignGolden,
                         testing::Values("llama_tied", "llama_rope_linear",
                                         "llama_rope_llama3", "llama_rope_yarn",
                                         "qwen2", "qwen3", "smollm3", "mistral_window",
                                         "gemma3_text", "gpt2"),
                         GoldenCaseName);

// What is refused, by key and value.
TEST(ForeignConfig, NothingIsIgnoredThatChangesLogits) {
  const auto fault = [](const std::string& more) {
    return std::string(ReadForeignModel(
                           R"({"model_type": "llama", "hidden_size": 8, "vocab_size": 9,
                "num_hidden_layers": 1, "num_attention_heads": 2,
                "intermediate_size": 4, "max_position_embeddings": 16)" +
                           more + "}")
                           .status()
                           .message());
  };
  using testing::HasSubstr;
  EXPECT_EQ(fault(""), "");
  EXPECT_EQ(fault(R"(, "unknown": null, "rope_scaling": null)"), "");
  EXPECT_THAT(
      fault(R"(, "quantization_config": {"bits": 4, "quant_method": "gptq"})"),
      HasSubstr("quantization_config: weights quantised by 'gptq' are not supported"));
  EXPECT_THAT(fault(R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2})"),
              HasSubstr(R"(rope_scaling.rope_type is "dynamic", supported: default)"));
  EXPECT_THAT(fault(R"(, "rope_scaling": {"type": "linear"})"),
              HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(fault(R"(, "rope_scaling": {"type": "linear", "factor": 2, "more": 1})"),
              HasSubstr("rope_scaling.more (1) is not known"));
  EXPECT_THAT(fault(R"(, "hidden_act": "tanh")"),
              HasSubstr(R"(hidden_act is "tanh", supported: silu)"));
  EXPECT_THAT(fault(R"(, "num_key_value_heads": 3)"),
              HasSubstr("3 groups that do not divide 2 heads"));
  EXPECT_THAT(fault(R"(, "rms_norm_eps": "small")"),
              HasSubstr(R"(rms_norm_eps is "small", supported: a finite number)"));
  EXPECT_THAT(fault(R"(, "head_dim": 99999999999999)"), HasSubstr("head_dim"));
  EXPECT_THAT(
      std::string(ReadForeignModel(R"({"model_type": "lama"})").status().message()),
      HasSubstr("model_type 'lama' is not supported; supported: llama"));
  EXPECT_THAT(
      std::string(ReadForeignModel(R"({"model_type": "llama"})").status().message()),
      testing::AllOf(HasSubstr("hidden_size is missing"),
                     HasSubstr("vocab_size is missing")));
  EXPECT_FALSE(ReadForeignModel("[1]").ok());
  EXPECT_FALSE(ReadForeignModel("{").ok());
}

}  // namespace
}  // namespace mnemon
