// SPDX-License-Identifier: MIT
// Frames of a client, right and wrong, against a server over a toy engine: the server
// lives, answers new clients, and keeps nothing of calls whose connections are closed.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/strings.h"
#include "mnemon/v1/generation.pb.h"
#include "mnemon/v1/sessions.pb.h"
#include "tests/fuzz/frame_program.h"
#include "tests/fuzz/fuzz_server.h"

namespace mnemon {
namespace {

constexpr int kInputsPerCheck = 64;

std::vector<wire::FuzzCall> Calls() {
  v1::GenerateRequest generate, endless, wrong;
  for (int32_t token = 1; token < 5; ++token) {
    generate.mutable_prompt()->mutable_tokens()->add_ids(token);
  }
  endless = wrong = generate;
  generate.mutable_stopping()->set_max_tokens(4);
  endless.mutable_stopping()->set_max_tokens(1000);
  wrong.mutable_sampling()->set_top_p(7);
  v1::GenerateRequest on_session = generate;
  on_session.set_session("sessions/anna");
  v1::ScoreRequest open, part;
  open.mutable_open();
  *part.mutable_part() = generate.prompt();
  v1::CreateSessionRequest create;
  create.set_session_id("anna");
  v1::GetSessionRequest get;
  get.set_name("sessions/anna");
  v1::DeleteSessionRequest end;
  end.set_name("sessions/anna");
  v1::TokenizeRequest tokenize;
  tokenize.set_text("some text");
  v1::DetokenizeRequest detokenize;
  detokenize.add_tokens(3);
  v1::PredictRequest predict;
  predict.add_sequences()->add_ids(1);
  const std::string generation = "/mnemon.v1.Generation/";
  const std::string sessions = "/mnemon.v1.Sessions/";
  return {{generation + "Generate", generate.SerializeAsString()},
          {generation + "Generate", endless.SerializeAsString()},
          {generation + "Generate", wrong.SerializeAsString()},
          {generation + "Generate", on_session.SerializeAsString()},
          {generation + "Score", open.SerializeAsString()},
          {generation + "Score", part.SerializeAsString()},
          {generation + "Tokenize", tokenize.SerializeAsString()},
          {generation + "Detokenize", detokenize.SerializeAsString()},
          {generation + "Predict", predict.SerializeAsString()},
          {generation + "Converse", ""},
          {sessions + "CreateSession", create.SerializeAsString()},
          {sessions + "GetSession", get.SerializeAsString()},
          {sessions + "ListSessions", ""},
          {sessions + "DeleteSession", end.SerializeAsString()},
          {"/mnemon.v1.Models/ListModels", ""},
          {"/grpc.health.v1.Health/Watch", ""}};
}

class Target {
 public:
  void Run(std::string_view program) {
    // Each from an address of its own, so that no limit of a peer keeps it out.
    const std::string source = StrCat("127.", 1 + inputs_ / 62500 % 100, ".",
                                      inputs_ / 250 % 250, ".", 1 + inputs_ % 250);
    wire::RunFrameProgram(program, server_.port(), source, calls_);
    server_.Tidy();
    if (++inputs_ % kInputsPerCheck == 0) server_.CheckAlive();
  }

 private:
  const std::vector<wire::FuzzCall> calls_ = Calls();
  FuzzServer server_;
  int64_t inputs_ = 0;
};

}  // namespace
}  // namespace mnemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& target = *new mnemon::Target;
  target.Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
