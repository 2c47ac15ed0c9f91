// SPDX-License-Identifier: MIT
// GGUF files as the directories that they stand for: those of PyPI's gguf, and those
// made here of directories, whose logits they must have.
#include "model/io/gguf_files.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/compute/weights.h"
#include "model/load/load.h"
#include "model/load/model_files.h"
#include "nlohmann/json.hpp"
#include "tests/model/io/gguf_image.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kFiles[] = MNEMON_SOURCE_DIR "/tests/model/io/data/gguf/";

json JsonOf(const std::string& path) { return json::parse(*ReadFile(path, 1 << 20)); }

class GgufArchitecture : public testing::TestWithParam<const char*> {
 protected:
  std::string Expected(const char* suffix) const {
    return StrCat(kFiles, GetParam(), suffix);
  }
  const std::string file_ = StrCat(kFiles, GetParam(), ".gguf");
  const TemporaryDirectory tmp_;
};

INSTANTIATE_TEST_SUITE_P(, GgufArchitecture,
                         testing::Values("llama", "qwen2", "qwen3", "gemma3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GgufArchitecture, IsReadAsItsDirectory) {
  ASSERT_TRUE(IsGgufFile(file_));
  const auto files = ReadGgufFiles(file_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(json::parse(files->config_json), JsonOf(Expected(".json")));
  EXPECT_EQ(json::parse(*files->generation_config_json)["eos_token_id"],
            json::parse("[2, 3]"));
  ASSERT_TRUE(files->weights.Finish().ok());
  const Safetensors& found = files->weights.files()[0];
  const Safetensors expected = *Safetensors::Read(Expected(".safetensors"));
  EXPECT_EQ(found.header().tensors.size(), expected.header().tensors.size());
  for (const TensorInfo& tensor : expected.header().tensors) {
    const TensorInfo* const same = found.Find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(same->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(same->dtype, DType::kF32) << tensor.name;
    EXPECT_EQ(*found.Floats(*same), *expected.Floats(tensor)) << tensor.name;
  }
  auto model = ReadModelFiles(file_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->verified.get().ok());
}

// Whatever pieces the file is read in.
TEST_P(GgufArchitecture, IsWrittenAsADirectory) {
  const std::string dir = tmp_.Path("model");
  const absl::Status written = WriteGgufAsDirectory(file_, dir);
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(JsonOf(dir + "/config.json"), JsonOf(Expected(".json")));
  const Safetensors found = *Safetensors::Read(dir + "/model.safetensors");
  const Safetensors expected = *Safetensors::Read(Expected(".safetensors"));
  for (const TensorInfo& tensor : expected.header().tensors) {
    const TensorInfo& same = *found.Find(tensor.name);
    EXPECT_EQ(same.dtype, DType::kBF16);
    const std::vector<float> numbers = *expected.Floats(tensor);
    std::string rounded;
    for (const float number : numbers) {
      const auto bits = std::bit_cast<uint32_t>(number);
      rounded +=
          RawBytes(static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16));
    }
    EXPECT_TRUE(found.Bytes(same) == rounded) << tensor.name;
  }
  const auto model = ReadModelFiles(dir);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(WriteGgufAsDirectory(file_, dir).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(std::distance(fs::directory_iterator(tmp_.path()), {}), 1);
}

// What llama.cpp's converter makes of a directory, in float32.
class Converter {
 public:
  explicit Converter(const std::string& dir)
      : config_(JsonOf(dir + "/config.json")),
        weights_(*Safetensors::Read(dir + "/model.safetensors")),
        type_(config_["model_type"]) {}

  std::string Image() {
    arch_ = type_ == "gemma3_text" ? "gemma3" : type_;
    image_.Text("general.architecture", arch_).Text("general.type", "model");
    type_ == "gpt2" ? Gpt2() : LlamaLike();
    for (const TensorInfo& tensor : weights_.header().tensors) Convert(tensor);
    return image_.Build();
  }

 private:
  std::string Own(const char* key) const { return StrCat(arch_, ".", key); }
  void Integer(const char* key, const char* theirs) {
    if (config_.contains(theirs)) image_.Integer(Own(key), config_[theirs]);
  }
  void Number(const char* key, const json& value) {
    image_.Number(Own(key), value.get<float>());
  }

  void Gpt2() {
    Integer("context_length", "n_positions");
    Integer("embedding_length", "n_embd");
    Integer("block_count", "n_layer");
    Integer("attention.head_count", "n_head");
    image_.Integer(Own("feed_forward_length"), 4 * config_["n_embd"].get<uint32_t>());
    Number("attention.layer_norm_epsilon", config_["layer_norm_epsilon"]);
  }

  void LlamaLike() {
    Integer("context_length", "max_position_embeddings");
    Integer("embedding_length", "hidden_size");
    Integer("block_count", "num_hidden_layers");
    Integer("feed_forward_length", "intermediate_size");
    Integer("attention.head_count", "num_attention_heads");
    Integer("attention.head_count_kv", "num_key_value_heads");
    Integer("attention.key_length", "head_dim");
    Integer("attention.value_length", "head_dim");
    Number("attention.layer_norm_rms_epsilon", config_["rms_norm_eps"]);
    json rope = config_.value("rope_parameters", json::object());
    if (type_ == "gemma3_text") {
      Number("rope.freq_base_swa", rope["sliding_attention"]["rope_theta"]);
      rope = rope["full_attention"];
      Integer("attention.sliding_window", "sliding_window");
      std::string slides =
          RawBytes(uint32_t{7}) + RawBytes(uint64_t{config_["layer_types"].size()});
      for (const json& kind : config_["layer_types"]) {
        slides += kind == "sliding_attention" ? '\1' : '\0';
      }
      image_.Key(Own("attention.sliding_window_pattern"), 9, slides);
      image_.Number(Own("attention.scale"),
                    1 / std::sqrt(config_["query_pre_attn_scalar"].get<float>()));
    }
    Number("rope.freq_base",
           rope.value("rope_theta", config_.value("rope_theta", json())));
    const json scaling = config_.value("rope_scaling", json());
    if (!scaling.is_object()) return;
    image_.Text(Own("rope.scaling.type"),
                scaling.value("rope_type", scaling.value("type", "")));
    Number("rope.scaling.factor", scaling["factor"]);
    if (scaling.contains("original_max_position_embeddings")) {
      image_.Integer(Own("rope.scaling.original_context_length"),
                     scaling["original_max_position_embeddings"]);
    }
  }

  void Convert(const TensorInfo& tensor) {
    std::string name = tensor.name;
    const std::pair<const char*, const char*> kNames[] = {
        {"model.embed_tokens", "token_embd"},
        {"model.norm", "output_norm"},
        {"lm_head", "output"},
        {"model.layers.", "blk."},
        {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"},
        {"self_attn.k_norm", "attn_k_norm"},
        {"input_layernorm", "attn_norm"},
        {"pre_feedforward_layernorm", "ffn_norm"},
        {"post_feedforward_layernorm", "post_ffw_norm"},
        {"post_attention_layernorm",
         type_ == "gemma3_text" ? "post_attention_norm" : "ffn_norm"},
        {"mlp.gate_proj", "ffn_gate"},
        {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},
        {"transformer.wte", "token_embd"},
        {"transformer.wpe", "position_embd"},
        {"transformer.ln_f", "output_norm"},
        {"transformer.h.", "blk."},
        {"ln_1", "attn_norm"},
        {"ln_2", "ffn_norm"},
        {"attn.c_attn", "attn_qkv"},
        {"attn.c_proj", "attn_output"},
        {"mlp.c_fc", "ffn_up"},
        {"mlp.c_proj", "ffn_down"}};
    for (const auto& [theirs, ours] : kNames) {
      if (const size_t at = name.find(theirs); at != name.npos) {
        name.replace(at, std::strlen(theirs), ours);
      }
    }
    std::vector<float> numbers = Floats(tensor);
    std::vector<int64_t> shape = tensor.shape;
    if (type_ == "gpt2" && tensor.name.find(".c_") != tensor.name.npos &&
        shape.size() == 2) {
      std::vector<float> turned;
      for (int64_t c = 0; c < shape[1]; ++c) {
        for (int64_t r = 0; r < shape[0]; ++r) {
          turned.push_back(numbers[static_cast<size_t>(r * shape[1] + c)]);
        }
      }
      numbers = turned;
      std::swap(shape[0], shape[1]);
    }
    if (type_ == "gemma3_text" && name.ends_with("norm.weight")) {
      for (float& number : numbers) number += 1;
    }
    const bool query = name.find("attn_q.") != name.npos;
    if (type_ == "llama" && (query || name.find("attn_k.") != name.npos)) {
      const size_t heads =
          config_[query ? "num_attention_heads" : "num_key_value_heads"];
      const size_t width = static_cast<size_t>(shape[0]) / heads;
      const size_t row = numbers.size() / static_cast<size_t>(shape[0]);
      std::vector<float> turned;
      for (size_t h = 0; h < heads; ++h) {
        for (size_t i = 0; i < width; ++i) {
          const size_t from = h * width + i % 2 * (width / 2) + i / 2;
          turned.insert(turned.end(), numbers.begin() + from * row,
                        numbers.begin() + (from + 1) * row);
        }
      }
      numbers = turned;
    }
    image_.Tensor(name, shape, 0,
                  {reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4});
  }

  std::vector<float> Floats(const TensorInfo& tensor) const {
    if (tensor.dtype == DType::kF32) return *weights_.Floats(tensor);
    std::vector<float> numbers;
    const std::string_view bytes = weights_.Bytes(tensor);
    for (size_t i = 0; i < bytes.size(); i += 2) {
      uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + i, sizeof(bits));
      numbers.push_back(tensor.dtype == DType::kBF16 ? FloatOfBf16(bits)
                                                     : FloatOfFp16(bits));
    }
    return numbers;
  }

  const json config_;
  const Safetensors weights_;
  const std::string type_;
  std::string arch_;
  GgufImage image_;
};

std::vector<float> LogitsOf(const ServedModel& model) {
  const auto arena = *StateArena::Create(model.decoder->spec(), {.slots = 1});
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 30; ++i) tokens.push_back(i * 7 % 80);
  const Segment segment = {.slot = *arena->Acquire(), .position = 0, .tokens = tokens};
  std::vector<float> logits(static_cast<size_t>(model.description.vocab));
  EXPECT_TRUE(model.decoder->Step({&segment, 1}, *arena, logits.data()).ok());
  return logits;
}

class GgufGolden : public testing::TestWithParam<const char*> {};

TEST_P(GgufGolden, HasTheBitsOfTheDirectory) {
  std::string dir = StrCat(MNEMON_SOURCE_DIR, "/tests/golden/data/hf/", GetParam());
  const char* const more = std::getenv("MNEMON_TEST_DATA");
  if (!fs::exists(dir) && more != nullptr) {
    dir = StrCat(more, "/golden_hf/models/", GetParam());
  }
  if (!fs::exists(dir)) GTEST_SKIP() << "no " << dir;
  const TemporaryDirectory tmp;
  tmp.Put("model.gguf", Converter(dir).Image());
  const auto model = LoadServedModel(tmp.Path("model.gguf"), {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto same = LoadServedModel(dir, {.decoder = {.format = WeightFormat::kFp32}});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(model->format, WeightFormat::kFp32);
  EXPECT_EQ(LogitsOf(*model), LogitsOf(*same));
}

INSTANTIATE_TEST_SUITE_P(, GgufGolden,
                         testing::Values("llama_tied", "llama_rope_linear",
                                         "llama_rope_yarn", "qwen2", "qwen3",
                                         "gemma3_text", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

// A model of one layer, by which faults are told.
class GgufFault : public testing::Test {
 protected:
  GgufFault() {
    integers_ = {{"block_count", 1},          {"context_length", 16},
                 {"embedding_length", 4},     {"feed_forward_length", 4},
                 {"attention.head_count", 1}, {"attention.head_count_kv", 1}};
    for (const char* const name : {"attn_q", "attn_k", "attn_v", "attn_output",
                                   "ffn_gate", "ffn_up", "ffn_down"}) {
      shapes_[StrCat("blk.0.", name, ".weight")] = {4, 4};
    }
    shapes_["token_embd.weight"] = {8, 4};
    for (const char* const name :
         {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) {
      shapes_[StrCat(name, ".weight")] = {4};
    }
  }
  std::string Fault(
      const std::function<void(GgufImage&)>& add = [](GgufImage&) {},
      const char* architecture = "llama") {
    GgufImage image;
    image.Text("general.architecture", architecture);
    for (const auto& [key, value] : integers_) {
      image.Integer(StrCat(architecture, ".", key), value);
    }
    image.Number(StrCat(architecture, ".attention.layer_norm_rms_epsilon"), 1e-5F);
    for (const auto& [name, shape] : shapes_) {
      const size_t count =
          static_cast<size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1));
      image.Tensor(name, shape, 0, std::string(count * 4, '\0'));
    }
    add(image);
    tmp_.Put("x.gguf", image.Build());
    const auto files = ReadModelFiles(tmp_.Path("x.gguf"));
    return files.ok() ? "" : std::string(files.status().message());
  }

  std::map<std::string, uint32_t> integers_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  const TemporaryDirectory tmp_;
};

TEST_F(GgufFault, NothingIsIgnoredThatChangesLogits) {
  EXPECT_EQ(Fault(), "");
  EXPECT_EQ(Fault([](GgufImage& image) {
              image.Integer("split.count", 1).Text("general.x", "y");
              image.Text("mradermacher.convert_type", "hf");
              image.Text("llama.rope.scaling.type", "none");
              image.Integer("llama.expert_count", 0);
            }),
            "");
  const struct {
    std::function<void(GgufImage&)> add;
    const char* fault;
  } kCases[] = {
      {[](GgufImage& i) { i.Integer("llama.logit_scale", 2); },
       "key 'llama.logit_scale' is not known"},
      {[](GgufImage& i) { i.Integer("clip.x", 2); }, "key 'clip.x' is not known"},
      {[](GgufImage& i) { i.Integer("llama.expert_count", 8); },
       "key 'llama.expert_count' is 8, supported: 0"},
      {[](GgufImage& i) { i.Integer("llama.rope.dimension_count", 2); },
       "key 'llama.rope.dimension_count' is 2, supported: 4"},
      {[](GgufImage& i) { i.Integer("llama.vocab_size", 9); },
       "key 'llama.vocab_size' is 9, supported: 8"},
      {[](GgufImage& i) { i.Text("llama.rope.scaling.type", "longrope"); },
       "'longrope', supported: none, linear, yarn"},
      {[](GgufImage& i) { i.Text("llama.rope.scaling.type", "yarn"); },
       "'llama.rope.scaling.original_context_length' is missing"},
      {[](GgufImage& i) { i.Text("llama.rope.freq_base", "x"); },
       "key 'llama.rope.freq_base' is not a finite number"},
      {[](GgufImage& i) { i.Number("llama.rope.freq_base", NAN); },
       "key 'llama.rope.freq_base' is not a finite number"},
      {[](GgufImage& i) { i.Integer("split.count", 2); }, "key 'split.count' is 2"},
      {[](GgufImage& i) { i.Text("general.type", "adapter"); }, "'adapter'"},
      {[](GgufImage& i) { i.Tensor("blk.0.attn_sinks.weight", {1}, 0, "0000"); },
       "tensor 'blk.0.attn_sinks.weight' is not known of architecture llama"},
      {[](GgufImage& i) { i.Tensor("blk.1.attn_norm.weight", {1}, 0, "0000"); },
       "tensor 'blk.1.attn_norm.weight' is not known"},
      {[](GgufImage& i) { i.Tensor("blk.00.attn_norm.weight", {1}, 0, "0000"); },
       "tensor 'blk.00.attn_norm.weight' is not known"},
      {[](GgufImage& i) { i.Tensor("blk.0.attn_norm.scale", {1}, 0, "0000"); },
       "tensor 'blk.0.attn_norm.scale' is not known"},
      {[](GgufImage& i) { i.Tensor("rope_freqs.weight", {1}, 0, "0000"); },
       "tensor 'rope_freqs.weight' is not F32 [2]"},
      {[](GgufImage& i) {
         i.Tensor("rope_freqs.weight", {2}, 0, RawBytes(1.0F) + RawBytes(0.5F));
       },
       "tensor 'rope_freqs.weight' has factors that are not those of llama3"}};
  for (const auto& [add, fault] : kCases) {
    EXPECT_THAT(Fault(add), AllOf(HasSubstr("x.gguf"), HasSubstr(fault)));
  }
  EXPECT_THAT(Fault([](GgufImage&) {}, "rwkv7"),
              HasSubstr("key 'general.architecture' is 'rwkv7', supported: llama"));
}

TEST_F(GgufFault, FaultsOfShapesAndSettingsNameThem) {
  const auto shapes = shapes_;
  shapes_["blk.0.attn_q.weight"] = {3, 4};
  EXPECT_THAT(Fault(), HasSubstr("tensor 'blk.0.attn_q.weight' has 3 rows of F32"));
  shapes_ = shapes;
  shapes_["blk.0.attn_v.weight"] = {3, 4};
  EXPECT_THAT(Fault(), HasSubstr("self_attn.v_proj.weight' is F32 [3, 4], expected"));
  shapes_ = shapes;
  shapes_.erase("blk.0.ffn_up.weight");
  EXPECT_THAT(Fault(), HasSubstr("mlp.up_proj.weight' is missing"));
  shapes_ = shapes;
  shapes_.erase("token_embd.weight");
  EXPECT_THAT(Fault(), HasSubstr("tensor 'token_embd.weight' is missing"));
  shapes_ = shapes;
  const auto integers = integers_;
  for (const uint32_t layers : {2000U, 0xFFFFFFFFU}) {
    integers_["block_count"] = layers;
    EXPECT_THAT(Fault(), HasSubstr("key 'llama.block_count' is"));
  }
  integers_ = integers;
  integers_["attention.head_count"] = 0;
  EXPECT_THAT(Fault(), HasSubstr("key 'llama.attention.head_count'"));
  integers_["attention.head_count"] = 1U << 31;
  EXPECT_NE(Fault(), "");
  integers_ = integers;
  integers_.erase("context_length");
  EXPECT_THAT(Fault(), HasSubstr("key 'llama.context_length' is missing"));
  integers_["context_length"] = 0;
  EXPECT_NE(Fault(), "");
}

TEST_F(GgufFault, NumbersThatAreNotFiniteAreRefused) {
  shapes_.erase("blk.0.ffn_up.weight");
  const auto add = [](GgufImage& image) {
    std::string bytes(64, '\0');
    bytes.replace(12, 4, RawBytes(std::numeric_limits<float>::infinity()));
    image.Tensor("blk.0.ffn_up.weight", {4, 4}, 0, bytes);
  };
  ASSERT_EQ(Fault(add), "");
  auto files = ReadModelFiles(tmp_.Path("x.gguf"));
  EXPECT_THAT(std::string(files->verified.get().status().message()),
              HasSubstr("mlp.up_proj.weight' is not finite at element 3"));
}

}  // namespace
}  // namespace mnemon
