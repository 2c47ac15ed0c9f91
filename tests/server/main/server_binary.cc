// SPDX-License-Identifier: MIT
#include "tests/server/main/server_binary.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/strings.h"
#include "model/io/checkpoint.h"
#include "model/sequence/make_model.h"
#include "model/sequence/model.h"
#include "model/sequence/tensors.h"
#include "model/text/tokenizer.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

constexpr char kAlphabet[] = "\n abcdefghijklmnopqrstuvwxyz";

ModelConfig TinyConfig() {
  ModelConfig config;
  config.architecture = "fast_weights";
  config.d_model = 16;
  config.heads = 2;
  config.layers = 1;
  config.d_ff = 32;
  config.vocab = 28;
  return config;
}

ModelConfig SegmentConfig() {
  ModelConfig config = TinyConfig();
  config.architecture = "transformer_xl";
  config.position_kind = PositionKind::kRelative;
  config.window = Window::kSegment;
  config.mem_len = 8;
  config.positions = 64;
  return config;
}

// One that predicts for a second or so.
ModelConfig EncoderConfig() {
  ModelConfig config = TinyConfig();
  config.architecture = "encoder";
  config.position_kind = PositionKind::kSinusoidal;
  config.d_model = 128;
  config.d_ff = 128;
  config.layers = 8;
  return config;
}

void WriteModel(const std::string& path, const ModelConfig& config) {
  auto model = MakeModel(config);
  ASSERT_TRUE(model.ok()) << model.status();
  InitialiseWeights(**model, Initialisation::kSane, 3);
  auto weights = FormatWeights(**model);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const absl::Status written = WriteCheckpoint(
      path, {{"config.json", ConfigToJson(config)},
             {"model.safetensors", *std::move(weights)},
             {"tokenizer.json", (*MakeCharTokenizer(kAlphabet))->ToJson()}});
  ASSERT_TRUE(written.ok()) << written;
}

}  // namespace

std::string ServerBinary::dir_;

void ServerBinary::SetUpTestSuite() {
  dir_ = std::filesystem::temp_directory_path() /
         StrCat("mnemon-server-binary-", getpid());
  std::filesystem::create_directories(dir_);
  WriteModel(Path("tiny"), TinyConfig());
  WriteModel(Path("segment"), SegmentConfig());
  WriteModel(Path("encoder"), EncoderConfig());
}

void ServerBinary::TearDownTestSuite() { std::filesystem::remove_all(dir_); }

std::unique_ptr<ChildProcess> ServerBinary::Server(std::vector<std::string> flags) {
  flags.insert(flags.begin(), StrCat(MNEMON_BINARY_DIR, "/bin/mnemon-server"));
  return std::make_unique<ChildProcess>(dir_, flags);
}

std::unique_ptr<ChildProcess> ServerBinary::Listening(
    std::vector<std::string> flags, const std::string& standard_error) {
  std::filesystem::remove(Path("port"));
  flags.insert(flags.end(), {"--checkpoint", Path("tiny"), "--listen", "127.0.0.1:0",
                             "--port-file", Path("port"), "--threads", "1", "--http",
                             "127.0.0.1:0", "--http-port-file", Path("http")});
  std::unique_ptr<ChildProcess> server;
  if (standard_error.empty()) {
    server = Server(std::move(flags));
  } else {
    std::vector<std::string> argv = {"/bin/sh", "-c", "exec \"$@\" 2> \"$0\"",
                                     standard_error,
                                     StrCat(MNEMON_BINARY_DIR, "/bin/mnemon-server")};
    argv.insert(argv.end(), flags.begin(), flags.end());
    server = std::make_unique<ChildProcess>(dir_, argv);
  }
  Eventually([&] {
    return std::filesystem::exists(Path("port")) || server->Wait(milliseconds(0));
  });
  std::getline(std::ifstream(Path("port")), port_);
  EXPECT_FALSE(port_.empty()) << server->err();
  std::ifstream(Path("http")) >> http_port_;
  return server;
}

std::unique_ptr<ChildProcess> ServerBinary::Client(
    std::vector<std::string> arguments, const std::optional<std::string>& input) {
  arguments.insert(arguments.begin(), StrCat(MNEMON_BINARY_DIR, "/bin/mnemon"));
  arguments.insert(arguments.end(), {"--server", "127.0.0.1:" + port_});
  return std::make_unique<ChildProcess>(dir_, arguments, input);
}

bool ServerBinary::Says(const ChildProcess& process, const std::string& text) {
  return Eventually([&] { return process.err().find(text) != std::string::npos; });
}

std::string ServerBinary::Mnemon(const std::vector<std::string>& arguments,
                                 int expected, const std::string& input) {
  auto client = Client(arguments, input);
  EXPECT_EQ(client->Wait(), expected) << client->err();
  return expected == 0 ? client->out() : client->err();
}

}  // namespace mnemon
