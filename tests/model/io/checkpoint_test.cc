// SPDX-License-Identifier: MIT
#include "model/io/checkpoint.h"

#include <pthread.h>
#include <sys/stat.h>

#include <atomic>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/files/file.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class CheckpointTest : public testing::Test {
 protected:
  static ModelConfig Config() {
    ModelConfig config;
    config.architecture = "causal";
    config.d_model = config.d_ff = config.vocab = 4;
    config.heads = config.layers = 1;
    return config;
  }
  // A checkpoint whose only tensor says which one it is.
  static CheckpointContent Content(float mark) {
    const TensorToWrite tensor = {
        "w", DType::kF32, {1}, {reinterpret_cast<const char*>(&mark), sizeof(mark)}};
    return {{"config.json", ConfigToJson(Config())},
            {"model.safetensors", FormatSafetensors({&tensor, 1}).value()},
            {"tokenizer.json", "{}"},
            {"training/state.json", "resume"}};
  }
  static float Mark(const CheckpointFiles& files) {
    return files.weights.Floats(*files.weights.Find("w")).value()[0];
  }
  std::string Dir() const { return tmp_.Path("c"); }
  void Write(float mark = 1) const {
    ASSERT_TRUE(WriteCheckpoint(Dir(), Content(mark)).ok());
  }
  static absl::Status StatusOf(const std::string& dir) {
    auto files = ReadCheckpoint(dir);
    return files.ok() ? files->verified.get().status() : files.status();
  }
  void ExpectRefused(absl::StatusCode code, const std::string& part) const {
    const absl::Status status = StatusOf(Dir());
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(Message(status), HasSubstr(part));
  }

  TemporaryDirectory tmp_;
};

TEST_F(CheckpointTest, ComesBack) {
  Write(2.5f);
  const auto files = ReadCheckpoint(Dir());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->config, Config());
  EXPECT_EQ(Mark(*files), 2.5f);
  EXPECT_EQ(files->tokenizer_json, "{}");
  EXPECT_EQ(ReadTrainingFile(Dir(), "state.json").value(), "resume");
  EXPECT_TRUE(absl::IsNotFound(ReadTrainingFile(Dir(), "none").status()));
  EXPECT_FALSE(ReadTrainingFile(Dir(), "../config.json").ok());
}

TEST_F(CheckpointTest, ManifestListsEveryFile) {
  Write();
  const auto json = nlohmann::json::parse(tmp_.Get("c/manifest.json"));
  EXPECT_EQ(json["format_version"], 1);
  EXPECT_EQ(json["files"].size(), 4u);
  EXPECT_EQ(json["files"]["training/state.json"]["bytes"], 6);
}

TEST_F(CheckpointTest, LinkToADirectoryIsFollowed) {
  Write();
  fs::create_symlink("c", tmp_.Path("last"));
  EXPECT_TRUE(StatusOf(tmp_.Path("last")).ok());
}

TEST_F(CheckpointTest, OfARunItIsTheBestElseTheLast) {
  const auto id = [](const std::string& dir) {
    absl::StatusOr<CheckpointFiles> files = ReadCheckpoint(dir);
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? files->verified.get()->model_id : "";
  };
  const std::string run = tmp_.Path("run");
  for (int step = 1; step <= 3; ++step) {
    const std::string dir = StrCat(run, "/step-", step);
    ASSERT_TRUE(MakeDirectories(run).ok());
    ASSERT_TRUE(WriteCheckpoint(dir, Content(static_cast<float>(step))).ok());
  }
  EXPECT_THAT(Message(ReadCheckpoint(run).status()), HasSubstr("/run/config.json'"));
  ASSERT_TRUE(ReplaceSymlink(run + "/last", "step-3").ok());
  EXPECT_EQ(id(run), id(run + "/step-3"));
  ASSERT_TRUE(ReplaceSymlink(run + "/best", "step-2").ok());
  EXPECT_EQ(id(run), id(run + "/step-2"));
  // A checkpoint is what it is, whatever lies in it.
  ASSERT_TRUE(ReplaceSymlink(run + "/step-1/best", "../step-2").ok());
  EXPECT_NE(id(run + "/step-1"), id(run + "/step-2"));
}

TEST_F(CheckpointTest, HandMadeOneNeedsConfigAndWeightsOnly) {
  Write();
  for (const char* name : {"c/manifest.json", "c/tokenizer.json"})
    fs::remove(tmp_.Path(name));
  fs::remove_all(tmp_.Path("c/training"));
  const auto files = ReadCheckpoint(Dir());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_FALSE(files->tokenizer_json.has_value());
  fs::remove(tmp_.Path("c/config.json"));
  ExpectRefused(absl::StatusCode::kNotFound, "c/config.json");
}

TEST_F(CheckpointTest, TrainingIsNotNeededToServe) {
  Write();
  fs::remove_all(tmp_.Path("c/training"));
  EXPECT_TRUE(StatusOf(Dir()).ok());
}

TEST_F(CheckpointTest, EveryChangedByteIsFound) {
  Write();
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const std::string path = std::string("c/") + name;
    const std::string good = tmp_.Get(path);
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] ^= 1;
      tmp_.Put(path, bad);
      ExpectRefused(absl::StatusCode::kDataLoss, path);
    }
    tmp_.Put(path, good + "x");
    ExpectRefused(absl::StatusCode::kDataLoss, path);
    tmp_.Put(path, good);
  }
  tmp_.Put("c/training/state.json", "Resume");
  EXPECT_TRUE(absl::IsDataLoss(ReadTrainingFile(Dir(), "state.json").status()));
}

TEST_F(CheckpointTest, WeightsThatChangeUntilTheyAreVerifiedAreFound) {
  Write();
  auto files = ReadCheckpoint(Dir());
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string weights = tmp_.Path("c/model.safetensors");
  fs::last_write_time(weights, fs::last_write_time(weights) + std::chrono::seconds(1));
  const absl::Status status = files->verified.get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr("changed while it was read"));
}

// A thread with a stack of that size cannot be started.
TEST_F(CheckpointTest, WeightsAreVerifiedWithoutAThread) {
  Write();
  const std::string id = ReadCheckpoint(Dir()).value().verified.get()->model_id;
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  auto files = ReadCheckpoint(Dir());
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->verified.get()->model_id, id);
}

TEST_F(CheckpointTest, FilesAndManifestMustAgree) {
  Write();
  fs::remove(tmp_.Path("c/tokenizer.json"));
  ExpectRefused(absl::StatusCode::kDataLoss, "tokenizer.json");
  CheckpointContent content = Content(1);
  content.erase("tokenizer.json");
  ASSERT_TRUE(WriteCheckpoint(Dir(), content).ok());
  tmp_.Put("c/tokenizer.json", "{}");
  ExpectRefused(absl::StatusCode::kDataLoss, "tokenizer.json' is not in manifest.json");
}

TEST_F(CheckpointTest, BadManifestIsNamed) {
  Write();
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const std::pair<const char*, const char*> cases[] = {
      {"", "manifest.json"},
      {"[]", "format_version"},
      {R"({"format_version": 1})", "files"},
      {R"({"format_version": 1, "files": []})", "files"},
      {R"({"format_version": 2, "files": {}})", "go together"},
      {R"({"format_version": -1, "files": {}})", "format_version"},
      {R"({"format_version": 1, "files": {"config.json": 3}})", "'config.json'"},
      {R"({"format_version": 1, "files": {"config.json": {"bytes": -1, "sha256": ""}}})",
       "'config.json'"}};
  for (const auto& [text, part] : cases) {
    tmp_.Put("c/manifest.json", text);
    ExpectRefused(kInvalid, part);
  }
}

TEST_F(CheckpointTest, NewerFormatNamesBothVersions) {
  Write();
  tmp_.Put("c/manifest.json", R"({"format_version": 7, "files": {}})");
  ExpectRefused(absl::StatusCode::kFailedPrecondition,
                "format_version 7; this program reads up to 2");
  fs::remove(tmp_.Path("c/manifest.json"));
  nlohmann::json config = nlohmann::json::parse(tmp_.Get("c/config.json"));
  config["format_version"] = 9;
  tmp_.Put("c/config.json", config.dump());
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "9");
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "c/config.json");
  EXPECT_EQ(GetErrorDetail(ReadCheckpoint(Dir()).status())->reason, "FORMAT_TOO_NEW");
}

TEST_F(CheckpointTest, FilesMustBeRegular) {
  for (const char* name :
       {"config.json", "model.safetensors", "tokenizer.json", "manifest.json"}) {
    const std::string path = std::string("c/") + name;
    for (const char* kind : {"link", "fifo", "directory"}) {
      fs::remove_all(Dir());
      Write();
      if (std::string(name) != "manifest.json")
        fs::remove(tmp_.Path("c/manifest.json"));
      fs::rename(tmp_.Path(path), tmp_.Path("aside"));
      if (kind == std::string("link")) {
        fs::create_symlink(tmp_.Path("aside"), tmp_.Path(path));
      } else if (kind == std::string("fifo")) {
        ASSERT_EQ(::mkfifo(tmp_.Path(path).c_str(), 0600), 0);
      } else {
        fs::create_directory(tmp_.Path(path));
      }
      ExpectRefused(absl::StatusCode::kInvalidArgument, path);
    }
  }
}

TEST_F(CheckpointTest, PickleIsRefusedByName) {
  tmp_.Put("model.pt", "\x80\x02pickle");
  const absl::Status file = ReadCheckpoint(tmp_.Path("model.pt")).status();
  EXPECT_THAT(Message(file),
              testing::AllOf(HasSubstr("model.pt"), HasSubstr("pickle")));
  Write();
  fs::remove(tmp_.Path("c/manifest.json"));
  fs::rename(tmp_.Path("c/model.safetensors"), tmp_.Path("c/pytorch_model.bin"));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "pytorch_model.bin");
  fs::remove(tmp_.Path("c/pytorch_model.bin"));
  ExpectRefused(absl::StatusCode::kNotFound, "c/model.safetensors");
}

TEST_F(CheckpointTest, WhatIsNoDirectoryIsNamed) {
  ExpectRefused(absl::StatusCode::kNotFound, "/c'");
  tmp_.Put("c", "x");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "/c' is not a directory");
}

TEST_F(CheckpointTest, HugeSideFilesAreRefused) {
  Write();
  fs::remove(tmp_.Path("c/manifest.json"));
  for (const char* name : {"c/config.json", "c/tokenizer.json", "c/manifest.json"}) {
    const std::string old = tmp_.Get(name);
    tmp_.Put(name, old);
    fs::resize_file(tmp_.Path(name), int64_t{1} << 36);
    ExpectRefused(absl::StatusCode::kOutOfRange, name);
    fs::remove(tmp_.Path(name));
    if (!old.empty()) tmp_.Put(name, old);
  }
}

TEST_F(CheckpointTest, IdentityIsThatOfTheFilesThatServe) {
  const auto id = [&](const CheckpointContent& content) {
    EXPECT_TRUE(WriteCheckpoint(Dir(), content).ok());
    return ReadCheckpoint(Dir()).value().verified.get()->model_id;
  };
  const std::string base = id(Content(1));
  EXPECT_EQ(base.size(), 64u);
  CheckpointContent content = Content(1);
  content["training/state.json"] = "another";
  EXPECT_EQ(id(content), base);
  EXPECT_NE(id(Content(2)), base);
  content["tokenizer.json"] = "";
  const std::string empty_tokenizer = id(content);
  EXPECT_NE(empty_tokenizer, base);
  content.erase("tokenizer.json");
  EXPECT_NE(id(content), empty_tokenizer);
  content["config.json"] += "\n";
  EXPECT_NE(id(content), base);
}

// The SHA-256 of a checkpoint's weights, and its model_id.
Int8Source SourceOf(const std::string& dir) {
  auto files = ReadCheckpoint(dir).value();
  const VerifiedWeights found = files.verified.get().value();
  return {.model_id = found.model_id, .weights_sha256 = found.sha256};
}

TEST_F(CheckpointTest, Int8WeightsHaveTheIdentityOfTheirSource) {
  Write(1);
  EXPECT_FALSE(ReadCheckpoint(Dir())->int8);
  EXPECT_TRUE(RequireFp32(Dir()).ok());
  EXPECT_EQ(nlohmann::json::parse(tmp_.Get("c/manifest.json"))["format_version"], 1);
  const Int8Source source = SourceOf(Dir());
  EXPECT_EQ(source.weights_sha256, Sha256Hex(Content(1).at("model.safetensors")));
  CheckpointContent content = Content(2);
  ASSERT_TRUE(WriteCheckpoint(Dir(), content, source).ok());
  EXPECT_TRUE(ReadCheckpoint(Dir())->int8);
  EXPECT_EQ(SourceOf(Dir()).model_id, source.model_id);
  EXPECT_EQ(SourceOf(Dir()).weights_sha256, Sha256Hex(content.at("model.safetensors")));
  const absl::Status wanted = RequireFp32(Dir());
  EXPECT_EQ(wanted.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(wanted), testing::AllOf(HasSubstr("/c'"), HasSubstr("fp32")));
  // Programs from before refuse it for its version.
  EXPECT_EQ(nlohmann::json::parse(tmp_.Get("c/manifest.json"))["format_version"], 2);

  // From another model: its configuration or its tokenizer.
  content["tokenizer.json"] = "{ }";
  ASSERT_TRUE(WriteCheckpoint(Dir(), content, source).ok());
  ExpectRefused(absl::StatusCode::kDataLoss, "source model_id " + source.model_id);
  content = Content(2);
  content["config.json"] += "\n";
  ASSERT_TRUE(WriteCheckpoint(Dir(), content, source).ok());
  ExpectRefused(absl::StatusCode::kDataLoss, "c/manifest.json");
}

TEST_F(CheckpointTest, SourcesThatMakeNoSenseAreRefused) {
  Write(1);
  const Int8Source source = SourceOf(Dir());
  ASSERT_TRUE(WriteCheckpoint(Dir(), Content(2), source).ok());
  const auto good = nlohmann::json::parse(tmp_.Get("c/manifest.json"));
  const std::string upper(64, 'A');
  struct Case {
    const char* change;
    const char* part;
  };
  for (const auto& [change, part] : {
           Case{R"({"precision": "int4"})", "'\"int4\"' is not known"},
           Case{R"({"precision": "fp32"})", "'\"fp32\"' is not known"},
           Case{R"({"precision": 8})", "'8' is not known"},
           Case{R"({"precision": null})", "'null' is not known"},
           Case{R"({"source": null})", "source must hold"},
           Case{R"({"source": "x"})", "source must hold"},
           Case{R"({"source": {"model_id": null}})", "source must hold"},
           Case{R"({"source": {"model_id": "0123"}})", "source must hold"},
           Case{R"({"source": {"weights_sha256": 3}})", "source must hold"},
       }) {
    nlohmann::json bad = good;
    bad.merge_patch(nlohmann::json::parse(change));
    tmp_.Put("c/manifest.json", bad.dump());
    ExpectRefused(absl::StatusCode::kInvalidArgument, part);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "c/manifest.json");
  }
  nlohmann::json bad = good;
  bad["source"]["model_id"] = upper;
  tmp_.Put("c/manifest.json", bad.dump());
  ExpectRefused(absl::StatusCode::kInvalidArgument, "lower-case hexadecimal");
  bad["source"]["model_id"] = std::string(64, '0');
  tmp_.Put("c/manifest.json", bad.dump());
  ExpectRefused(absl::StatusCode::kDataLoss, "source model_id 0000");
}

TEST_F(CheckpointTest, OtherDirectoriesAreNotReplaced) {
  fs::create_directory(Dir());
  EXPECT_TRUE(WriteCheckpoint(Dir(), Content(1)).ok());
  EXPECT_TRUE(WriteCheckpoint(Dir(), Content(2)).ok());
  const absl::Status status = WriteCheckpoint(tmp_.path(), Content(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(Dir()));
}

TEST_F(CheckpointTest, NamesStayInTheDirectory) {
  for (const char* name :
       {"../x", "training/../../x", "training/", "x", "/x", "training/.."}) {
    CheckpointContent content = Content(1);
    content[name] = "x";
    EXPECT_FALSE(WriteCheckpoint(Dir(), content).ok()) << name;
  }
}

TEST_F(CheckpointTest, ReplacedWhileReadIsOldOrNew) {
  // Config and tokenizer name the same version; a read takes long enough to be
  // overtaken.
  const auto content = [](int64_t version) {
    ModelConfig config = Config();
    config.vocab = version;
    const std::string bytes(1 << 18, static_cast<char>(version));
    const TensorToWrite tensor = {"w", DType::kU8, {1 << 18}, bytes};
    return CheckpointContent{
        {"config.json", ConfigToJson(config)},
        {"model.safetensors", FormatSafetensors({&tensor, 1}).value()},
        {"tokenizer.json", std::to_string(version)}};
  };
  ASSERT_TRUE(WriteCheckpoint(Dir(), content(1)).ok());
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int64_t version = 1; version <= 40; ++version) {
      EXPECT_TRUE(WriteCheckpoint(Dir(), content(version)).ok());
    }
    done = true;
  });
  while (!done) {
    auto files = ReadCheckpoint(Dir());
    EXPECT_TRUE(files.ok()) << files.status();
    if (!files.ok()) break;
    EXPECT_TRUE(files->verified.get().ok());
    const auto version = static_cast<char>(files->config.vocab);
    EXPECT_EQ(files->tokenizer_json, std::to_string(files->config.vocab));
    EXPECT_EQ(files->weights.Bytes(*files->weights.Find("w"))[0], version);
  }
  writer.join();
}

}  // namespace
}  // namespace mnemon
