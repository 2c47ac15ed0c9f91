// SPDX-License-Identifier: MIT
// import, score, sample and inspect as a user runs them, on committed reference
// numbers.
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/checkpoint.h"
#include "model/io/safetensors.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/model/io/temporary_directory.h"
#include "tests/train/commands/run_tool.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

std::string Golden(const std::string& name, const std::string& file) {
  return StrCat(MNEMON_SOURCE_DIR, "/tests/golden/data/", name, "/", file);
}

class ToolsTest : public testing::Test {
 protected:
  // Imports a reference model and returns its checkpoint.
  std::string Import(const std::string& name,
                     std::vector<std::string> more = {}) const {
    const std::string out = tmp_.Path(name);
    std::vector<std::string> arguments = {"import",
                                          "--from",
                                          "labml",
                                          "--config",
                                          Golden(name, "config.json"),
                                          "--weights",
                                          Golden(name, "weights.safetensors"),
                                          "--out",
                                          out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = RunTool(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return out;
  }
  std::string Out() const { return tmp_.Path("out.safetensors"); }
  Ran Score(const std::string& checkpoint, const std::string& tokens,
            std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"score",    "--checkpoint", checkpoint,
                                          "--tokens", tokens,         "--out",
                                          Out(),      "--threads",    "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  }
  // Largest difference of the written logits and the reference's.
  float Error(const std::string& name) const {
    const auto read = [](const std::string& path) {
      const auto file = Safetensors::Read(path).value();
      return file.Floats(*file.Find("logits")).value();
    };
    const auto ours = read(Out()), theirs = read(Golden(name, "io.safetensors"));
    if (ours.size() != theirs.size()) return INFINITY;
    float most = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
      most = std::max(most, std::abs(ours[i] - theirs[i]));
    }
    return most;
  }
  // A file of tokens, and of segments where there are any.
  std::string Tokens(const std::vector<int64_t>& shape,
                     const std::vector<int64_t>& tokens,
                     const std::vector<int64_t>& segments = {}) const {
    const auto bytes = [](const std::vector<int64_t>& values) {
      return std::string_view(reinterpret_cast<const char*>(values.data()),
                              values.size() * sizeof(int64_t));
    };
    std::vector<TensorToWrite> arrays = {{"tokens", DType::kI64, shape, bytes(tokens)}};
    if (!segments.empty()) {
      arrays.push_back({"segments",
                        DType::kI64,
                        {static_cast<int64_t>(segments.size())},
                        bytes(segments)});
    }
    tmp_.Put("tokens.safetensors", FormatSafetensors(arrays).value());
    return tmp_.Path("tokens.safetensors");
  }
  // The same with a mask, whose bytes are `data`.
  std::string TokensAndMask(const std::vector<int64_t>& shape,
                            const std::vector<int64_t>& tokens, DType type,
                            const std::vector<int64_t>& mask_shape,
                            std::string_view data) const {
    const std::string_view ids(reinterpret_cast<const char*>(tokens.data()),
                               tokens.size() * sizeof(int64_t));
    const std::vector<TensorToWrite> arrays = {{"tokens", DType::kI64, shape, ids},
                                               {"mask", type, mask_shape, data}};
    tmp_.Put("tokens.safetensors", FormatSafetensors(arrays).value());
    return tmp_.Path("tokens.safetensors");
  }
  std::vector<float> Logits() const {
    const auto file = Safetensors::Read(Out()).value();
    return file.Floats(*file.Find("logits")).value();
  }
  // A checkpoint of the reference transformer with 17 characters for its 17 tokens.
  std::string WithTokenizer() const {
    const std::string dir = Import("transformer");
    const CheckpointFiles files = ReadCheckpoint(dir).value();
    CheckpointContent content = {
        {"config.json", ConfigToJson(files.config)},
        {"model.safetensors", std::string(files.weights.bytes())},
        {"tokenizer.json",
         MakeCharTokenizer("abcdefghijklmno\xc3\xa9\n").value()->ToJson()}};
    EXPECT_TRUE(WriteCheckpoint(dir, content).ok());
    return dir;
  }

  TemporaryDirectory tmp_;
};

TEST_F(ToolsTest, ScoreGivesTheReferencesLogitsInBothForms) {
  for (const char* name :
       {"feedback_000", "feedback_002", "feedback_kv", "fast_weights_nu2",
        "transformer", "xl_carry", "xl_single"}) {
    const std::string dir = Import(name);
    for (const char* form : {"sequence", "step"}) {
      for (const char* chunk : {"0", "1", "3"}) {
        const Ran ran = Score(dir, Golden(name, "io.safetensors"),
                              {"--form", form, "--chunk", chunk});
        ASSERT_EQ(ran.code, 0) << ran.err;
        EXPECT_LT(Error(name), 1e-4f) << name << " " << form << " " << chunk;
      }
    }
  }
}

TEST_F(ToolsTest, SegmentsArePartOfTheFunction) {
  const std::string dir = Import("xl_truncated");
  ASSERT_EQ(Score(dir, Golden("xl_truncated", "io.safetensors")).code, 0);
  EXPECT_LT(Error("xl_truncated"), 1e-4f);
  // The same tokens as one segment.
  const auto io = Safetensors::Read(Golden("xl_truncated", "io.safetensors")).value();
  const TensorInfo& tokens = *io.Find("tokens");
  ASSERT_EQ(Score(dir, Tokens(tokens.shape, io.Ints(tokens).value())).code, 0);
  EXPECT_GT(Error("xl_truncated"), 1e-2f);
}

TEST_F(ToolsTest, ConvertedModelGivesTheSameLogits) {
  const std::string dir = Import("feedback_000", {"--convert-000"});
  EXPECT_EQ(ReadCheckpoint(dir)->config.position_bias, PositionBias::kFree);
  ASSERT_EQ(Score(dir, Golden("feedback_000", "io.safetensors")).code, 0);
  EXPECT_LT(Error("feedback_000"), 1e-4f);
}

TEST_F(ToolsTest, StepFormIsTheSameInAnyChunk) {
  const std::string dir = Import("feedback_kv");
  const std::string tokens = Golden("feedback_kv", "io.safetensors");
  ASSERT_EQ(Score(dir, tokens, {"--form", "step"}).code, 0);
  const std::string whole = tmp_.Get("out.safetensors");
  ASSERT_EQ(Score(dir, tokens, {"--form", "step", "--chunk", "5"}).code, 0);
  EXPECT_EQ(tmp_.Get("out.safetensors"), whole);
}

// Histories far longer than the memory: a ring lets its oldest blocks go.
TEST_F(ToolsTest, HistoriesLongerThanAMemory) {
  const std::string dir = Import("xl_truncated");
  CheckpointFiles files = ReadCheckpoint(dir).value();
  files.config.window = Window::kSliding;
  const CheckpointContent content = {
      {"config.json", ConfigToJson(files.config)},
      {"model.safetensors", std::string(files.weights.bytes())}};
  ASSERT_TRUE(WriteCheckpoint(dir, content).ok());
  std::vector<int64_t> tokens(2 * 700);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int64_t>(i * i % 13 + i % 4);
  }
  const auto logits = [&](const char* form) {
    const Ran ran = Score(dir, Tokens({2, 700}, tokens), {"--form", form});
    EXPECT_EQ(ran.code, 0) << ran.err;
    const auto file = Safetensors::Read(Out()).value();
    return file.Floats(*file.Find("logits")).value();
  };
  const std::vector<float> sequence = logits("sequence"), step = logits("step");
  ASSERT_EQ(sequence.size(), step.size());
  for (size_t i = 0; i < step.size(); ++i) ASSERT_NEAR(sequence[i], step[i], 1e-4) << i;

  const Ran ran = RunTool({"sample", "--checkpoint", dir, "--prompt-tokens", "1,2",
                           "--tokens", "700", "--seed", "1"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), ','), 699);
  // The word of all other programs.
  const Ran same = RunTool({"sample", "--checkpoint", dir, "--prompt-tokens", "1,2",
                            "--max-tokens", "700", "--seed", "1"});
  EXPECT_EQ(same.out, ran.out);
}

TEST_F(ToolsTest, SampleContinuesAsTheReference) {
  for (const char* name :
       {"feedback_002", "fast_weights_nu1", "transformer", "xl_single"}) {
    const std::string dir = Import(name);
    const auto io = Safetensors::Read(Golden(name, "io.safetensors")).value();
    const TensorInfo& info = *io.Find("tokens");
    const auto tokens = io.Ints(info).value();
    const auto greedy = io.Ints(*io.Find("greedy")).value();
    const std::vector<int64_t> prompt(tokens.begin(), tokens.begin() + info.shape[1]);
    const std::vector<int64_t> wanted(greedy.begin(),
                                      greedy.begin() + io.Find("greedy")->shape[1]);
    const Ran ran =
        RunTool({"sample", "--checkpoint", dir, "--prompt-tokens", StrJoin(prompt, ","),
                 "--tokens", StrCat(wanted.size()), "--temperature", "0"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.out, StrJoin(wanted, ",") + "\n") << name;
    EXPECT_EQ(ran.err, "");
  }
}

TEST_F(ToolsTest, SampleIsAFunctionOfItsSeed) {
  const std::string dir = WithTokenizer();
  const auto sample = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "sample", "--checkpoint", dir, "--prompt", "abc\xc3\xa9", "--tokens", "30"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  };
  const Ran first = sample({"--seed", "7"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.err, "");
  EXPECT_EQ(sample({"--seed", "7"}).out, first.out);
  EXPECT_NE(sample({"--seed", "8"}).out, first.out);
  // A drawn seed is named, and gives the same again.
  const Ran drawn = sample({});
  ASSERT_THAT(drawn.err, MatchesRegex("seed: [0-9]+\n"));
  const std::string seed = drawn.err.substr(6, drawn.err.size() - 7);
  EXPECT_EQ(sample({"--seed", seed}).out, drawn.out);
  // Text and ids are the same tokens.
  const Ran ids = sample({"--seed", "7", "--ids"});
  EXPECT_THAT(ids.out, MatchesRegex("[0-9]+(,[0-9]+)+\n"));
  const auto tokenizer = MakeCharTokenizer("abcdefghijklmno\xc3\xa9\n").value();
  std::vector<int32_t> parsed;
  for (size_t at = 0; at < ids.out.size(); at = ids.out.find_first_of(",\n", at) + 1) {
    parsed.push_back(std::atoi(ids.out.c_str() + at));
  }
  EXPECT_EQ(parsed.size(), 30u);
  EXPECT_EQ(tokenizer->Decode(parsed).value() + "\n", first.out);
}

TEST_F(ToolsTest, SampleStopsAtTheContextLimit) {
  const std::string dir = WithTokenizer();  // 64 positions
  const Ran ran = RunTool({"sample", "--checkpoint", dir, "--prompt", "abcd",
                           "--tokens", "500", "--seed", "1", "--ids"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), ',') + 1, 61);
  EXPECT_THAT(ran.err, HasSubstr("context limit of 64 tokens"));
  const Ran over = RunTool({"sample", "--checkpoint", dir, "--prompt",
                            std::string(65, 'a'), "--tokens", "1", "--seed", "1"});
  EXPECT_EQ(over.code, 1);
}

TEST_F(ToolsTest, SampleNamesWhatIsWrong) {
  const std::string dir = WithTokenizer();
  const std::string bare = Import("feedback_kv");
  struct Case {
    std::vector<std::string> arguments;
    int code;
    const char* part;
  };
  const Case cases[] = {
      {{"--checkpoint", dir, "--tokens", "3"}, 2, "--prompt"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", ""}, 2, "--prompt"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "a", "--prompt-tokens", "1"},
       2,
       "--prompt"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "abX"},
       1,
       "unknown character 'X' (U+0058) at byte 2"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "ab\xff"},
       1,
       "UTF-8 at byte 2"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt-tokens", "1,17"},
       1,
       "token 17 at index 1"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt-tokens=-1"}, 1, "token -1"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt-tokens", "1,x"},
       2,
       "--prompt-tokens"},
      {{"--checkpoint", dir, "--tokens=-1", "--prompt", "a"}, 2, "--max-tokens"},
      {{"--checkpoint", dir, "--prompt", "a"}, 2, "--max-tokens"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "a", "--temperature=-1"},
       2,
       "--temperature"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "a", "--temperature", "nan"},
       2,
       "--temperature"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "a", "--top-p", "0"},
       2,
       "--top-p"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "a", "--top-k=-1"},
       2,
       "--top-k"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "a", "--seed", "x"},
       2,
       "--seed"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "a", "--device", "tpu"},
       2,
       "--device"},
      {{"--checkpoint", dir, "--tokens", "3", "--prompt", "a", "--precision", "int4"},
       2,
       "--precision"},
      {{"--checkpoint", bare, "--tokens", "3", "--prompt", "a"}, 2, "--prompt-tokens"},
      {{"--checkpoint", "/none", "--tokens", "3", "--prompt", "a"}, 1, "/none"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> arguments = c.arguments;
    arguments.insert(arguments.begin(), "sample");
    const Ran ran = RunTool(arguments);
    EXPECT_EQ(ran.code, c.code) << StrJoin(arguments, " ") << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(c.part));
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(ToolsTest, SampleTakesPromptsWithUnknownCharacters) {
  const std::string dir = WithTokenizer();
  const auto sample = [&](const std::string& prompt, std::vector<std::string> more) {
    more.insert(more.begin(), {"sample", "--checkpoint", dir, "--tokens", "9", "--seed",
                               "5", "--prompt", prompt});
    return RunTool(more);
  };
  const Ran known = sample("ab", {});
  EXPECT_EQ(known.code, 0) << known.err;
  EXPECT_EQ(sample("Xa\xe2\x82\xac"
                   "b",
                   {"--unknown-characters", "skip"})
                .out,
            known.out);
  Ran ran = sample("X", {"--unknown-characters", "skip"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("--prompt: all of its characters are unknown"));
  ran = sample("aX", {"--unknown-characters", "replace"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("nothing can replace it"));
  ran = sample("aX", {"--unknown-characters", "refuse"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("'X' (U+0058) at byte 1"));
  ran = sample("a", {"--unknown-characters", "keep"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--unknown-characters"));
}

TEST_F(ToolsTest, ScoreNamesWhatIsWrong) {
  const std::string dir = Import("xl_single");
  const auto fails = [&](const std::string& tokens, const std::string& part,
                         std::vector<std::string> more = {}, int code = 1) {
    const Ran ran = Score(dir, tokens, more);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(part));
    EXPECT_FALSE(fs::exists(Out()));
  };
  fails(Tokens({4}, {1, 2, 3, 4}), "tokens must be I64 [B, T]");
  fails(Tokens({2, 0}, {}), "tokens must be I64 [B, T]");
  fails(Tokens({2, 2}, {1, 2, 17, 4}), "tokens[1, 0] is 17, not in 0..16");
  fails(Tokens({1, 2}, {-1, 2}), "tokens[0, 0] is -1");
  fails(Tokens({1, 2}, {1, int64_t{1} << 32}), "tokens[0, 1] is 4294967296");
  fails(Tokens({1, 4}, {1, 2, 3, 4}, {2, 1}), "segments");
  fails(Tokens({1, 4}, {1, 2, 3, 4}, {2, 3}), "segments");
  fails(Tokens({1, 4}, {1, 2, 3, 4}, {0, 4}), "segments");
  fails(Tokens({1, 4}, {1, 2, 3, 4}, {-1, 5}), "segments");
  fails(Golden("xl_single", "weights.safetensors"),
        "weights.safetensors': holds no array 'tokens'");
  fails(tmp_.Path("none.safetensors"), "none.safetensors");
  fails(Golden("xl_single", "config.json"), "config.json");
  const std::string good = Tokens({1, 2}, {1, 2});
  fails(good, "--form", {"--form", "both"}, 2);
  fails(good, "--chunk", {"--form", "step", "--chunk", "65"}, 2);
  fails(good, "--chunk", {"--chunk=-1"}, 2);
  fails(good, "--device", {"--device", "tpu"}, 2);
  fails(good, "--precision", {"--precision", "int4"}, 2);
}

TEST_F(ToolsTest, ScoreOfAnEncoder) {
  const std::string dir = Import("encoder");
  const Ran ran = Score(dir, Golden("encoder", "io.safetensors"));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_LE(Error("encoder"), 1e-4f);

  // A causal mask from the file, as integers and as numbers to add, is the causal mask
  // of the configuration; and it replaces that one.
  auto config = nlohmann::json::parse(
      ReadFile(Golden("encoder", "config.json"), 1 << 20).value());
  config["mask"] = "causal";
  tmp_.Put("causal.json", config.dump());
  ASSERT_EQ(RunTool({"import", "--from", "labml", "--config", tmp_.Path("causal.json"),
                     "--weights", Golden("encoder", "weights.safetensors"), "--out",
                     tmp_.Path("causal")})
                .code,
            0);
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> lower = {1, 0, 0, 1, 1, 0, 1, 1, 1};
  std::vector<float> added;
  for (const int64_t one : lower) added.push_back(one ? 0.0f : -INFINITY);
  const std::vector<int64_t> all(9, 1);
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(values[0]));
  };
  const auto logits = [&](const std::string& checkpoint, const std::string& tokens) {
    const Ran scored = Score(checkpoint, tokens);
    EXPECT_EQ(scored.code, 0) << scored.err;
    return Logits();
  };
  const auto near = [](const std::vector<float>& a) {
    return testing::Pointwise(testing::FloatNear(1e-5f), a);
  };
  const auto causal = logits(tmp_.Path("causal"), Tokens({2, 3}, ids));
  const auto open = logits(dir, Tokens({2, 3}, ids));
  EXPECT_THAT(open, Not(near(causal)));
  const auto with = [&](DType type, std::string_view data) {
    return TokensAndMask({2, 3}, ids, type, {3, 3}, data);
  };
  EXPECT_THAT(logits(dir, with(DType::kI64, bytes(lower))), near(causal));
  EXPECT_THAT(logits(dir, with(DType::kF32, bytes(added))), near(causal));
  EXPECT_THAT(logits(tmp_.Path("causal"), with(DType::kI64, bytes(all))), near(open));
  const std::vector<int64_t> each(18, 1);
  EXPECT_THAT(logits(tmp_.Path("causal"),
                     TokensAndMask({2, 3}, ids, DType::kI64, {2, 3, 3}, bytes(each))),
              near(open));

  fs::remove(Out());
  const auto fails = [&](const std::string& tokens, const std::string& part,
                         std::vector<std::string> more = {}, int code = 1) {
    const Ran refused = Score(dir, tokens, more);
    EXPECT_EQ(refused.code, code) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(part));
    EXPECT_FALSE(fs::exists(Out()));
  };
  fails(TokensAndMask({2, 3}, ids, DType::kI64, {9}, bytes(lower)), "a mask is [3, 3]");
  fails(TokensAndMask({2, 3}, ids, DType::kI64, {1, 3, 3}, bytes(lower)),
        "got [1, 3, 3]");
  const std::string good = Tokens({2, 3}, ids);
  fails(good, "whole sequences", {"--form", "step"}, 2);
  fails(good, "whole sequences", {"--chunk", "2"}, 2);
  fails(Tokens({1, 65}, std::vector<int64_t>(65, 1)), "limit of 64");
}

TEST_F(ToolsTest, AnEncoderContinuesNothing) {
  const Ran ran = RunTool({"sample", "--checkpoint", Import("encoder"), "--tokens", "3",
                           "--prompt-tokens", "1"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("the model takes whole sequences"));
  EXPECT_EQ(ran.out, "");
}

TEST_F(ToolsTest, ScoreWritesOverFilesOnly) {
  const std::string dir = Import("xl_single");
  const std::string tokens = Tokens({1, 2}, {1, 2});
  const Ran ran =
      RunTool({"score", "--checkpoint", dir, "--tokens", tokens, "--out", "/dev/null"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("/dev/null"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(ToolsTest, ImportOfGgufWritesADirectory) {
  const std::string file = MNEMON_SOURCE_DIR "/tests/model/io/data/gguf/llama.gguf";
  const auto import = [&](const std::string& given, const std::string& out,
                          std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"import", "--from", "gguf", "--out", out};
    if (!given.empty()) arguments.push_back(given);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  };
  Ran ran = import(file, tmp_.Path("a/b/"));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("llama"), HasSubstr("byte pairs")));
  for (const std::string& model : {file, tmp_.Path("a/b")}) {
    ran = RunTool({"inspect", model});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("rope_theta"));
  }
  ran = import(file, tmp_.Path("a/b"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("is there already"));
  ran = import(MNEMON_SOURCE_DIR "/README.md", tmp_.Path("c"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("README.md' is not a GGUF file"));
  EXPECT_EQ(import("", tmp_.Path("c")).code, 2);
  EXPECT_EQ(import(file, tmp_.Path("c"), {"--config", "x"}).code, 2);
  EXPECT_EQ(RunTool({"import", "--from", "labml", "--out", tmp_.Path("c")}).code, 2);
  EXPECT_FALSE(fs::exists(tmp_.Path("c")));
}

TEST_F(ToolsTest, ImportNamesWhatIsWrong) {
  const auto import = [&](const std::string& from, const std::string& config,
                          const std::string& weights,
                          std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"import",   "--from", from,
                                          "--config", config,   "--weights",
                                          weights,    "--out",  tmp_.Path("new")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  };
  const std::string config = Golden("xl_single", "config.json");
  const std::string weights = Golden("xl_single", "weights.safetensors");
  Ran ran = import("elsewhere", config, weights);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("--from"), HasSubstr("labml")));
  ran = import("labml", weights, weights);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("weights.safetensors"));
  ran = import("labml", config, Golden("feedback_kv", "weights.safetensors"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err,
              AllOf(HasSubstr("feedback_kv/weights.safetensors"),
                    HasSubstr("self_attn.key_pos_bias' is missing"),
                    HasSubstr("'transformer.key.linear.weight' is not expected")));
  ran = import("labml", config, weights, {"--convert-000"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("seed_form 000"));
  ran = import("labml", config, tmp_.Path("model.pt"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("pickle"), HasSubstr("convert-labml")));
  EXPECT_FALSE(fs::exists(tmp_.Path("new")));
  fs::create_directory(tmp_.Path("new"));
  tmp_.Put("new/precious.txt", "x");
  ran = import("labml", config, weights);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("not replaced"));
  EXPECT_EQ(tmp_.Get("new/precious.txt"), "x");
}

TEST_F(ToolsTest, ImportMakesParents) {
  const Ran ran = RunTool({"import", "--from", "labml", "--config",
                           Golden("xl_single", "config.json"), "--weights",
                           Golden("xl_single", "weights.safetensors"), "--out",
                           tmp_.Path("a/b/c/")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ReadCheckpoint(tmp_.Path("a/b/c")).ok());
}

TEST_F(ToolsTest, InspectShowsConfigParametersStateAndIdentities) {
  const std::string dir = WithTokenizer();
  const auto config = nlohmann::json::parse(
      ReadFile(Golden("transformer", "config.json"), 1 << 20).value());
  const Ran ran = RunTool({"inspect", dir});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(ReadCheckpoint(dir)->verified.get()->model_id));
  EXPECT_THAT(ran.out, HasSubstr("numerics_id"));
  EXPECT_THAT(ran.out, HasSubstr("Char, 17 tokens; 17 characters: "));
  EXPECT_THAT(ran.out, testing::ContainsRegex("architecture +causal"));
  EXPECT_THAT(ran.out,
              testing::ContainsRegex("layers.1.ff.in.weight +\\[32, 16\\] +512"));
  EXPECT_THAT(ran.out, testing::ContainsRegex(StrCat(
                           "total +", config["parameters"].get<int64_t>(), "\n")));
  // Two layers of keys and values, 16 floats each, 64 positions.
  EXPECT_THAT(ran.out, testing::ContainsRegex("at the limit, 64 tokens +16384"));
  EXPECT_THAT(RunTool({"inspect", Import("fast_weights_nu1")}).out,
              AllOf(HasSubstr("none: only token ids work"), HasSubstr("unlimited")));
  const Ran encoder = RunTool({"inspect", Import("encoder")});
  EXPECT_EQ(encoder.code, 0) << encoder.err;
  EXPECT_THAT(encoder.out, testing::ContainsRegex("architecture +encoder"));
  EXPECT_THAT(encoder.out, testing::ContainsRegex("numerics_id +step/fp32/r"));
  EXPECT_THAT(encoder.out,
              testing::ContainsRegex("logits.norm.weight +\\[10\\] +10\n"));
  EXPECT_THAT(encoder.out, testing::ContainsRegex("total +4974\n"));
  EXPECT_THAT(encoder.out, HasSubstr("none: an encoder takes whole sequences"));
}

TEST_F(ToolsTest, InspectNamesWhatIsWrong) {
  EXPECT_EQ(RunTool({"inspect"}).code, 2);
  const Ran none = RunTool({"inspect", tmp_.Path("none")});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("none"));
  const std::string dir = Import("transformer");
  tmp_.Put("transformer/config.json", "{}");
  const Ran damaged = RunTool({"inspect", dir});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("transformer/config.json"));
}

TEST_F(ToolsTest, HelpShowsExamplesAndDefaults) {
  for (const char* command : {"import", "score", "sample", "inspect"}) {
    const Ran ran = RunTool({command, "--help"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, HasSubstr(StrCat("mnemon-train ", command)));
  }
}

}  // namespace
}  // namespace mnemon
