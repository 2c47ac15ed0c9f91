// SPDX-License-Identifier: MIT
// The shape of the source tree: allowed edges between layers, no cycle, torch and
// protobuf never in one unit. The checker itself is held against small trees that break
// each rule.
#include "tests/layering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <string_view>

#include "model/families/families.h"

namespace mnemon::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Tree& Project() {
  static const Tree tree = ReadTree(MNEMON_SOURCE_DIR);
  return tree;
}

// Those of `names` that `text` compares something with: beside == or !=, or in a tuple
// after `in`.
std::set<std::string> ComparedNames(std::string_view text,
                                    const std::vector<std::string>& names) {
  std::set<std::string> found;
  for (const std::string& name : names) {
    for (const char quote : {'"', '\''}) {
      const std::string quoted = quote + name + quote;
      for (size_t at = text.find(quoted); at != text.npos;
           at = text.find(quoted, at + 1)) {
        std::string_view before = text.substr(0, at);
        while (before.ends_with(' ')) before.remove_suffix(1);
        std::string_view after = text.substr(at + quoted.size());
        while (after.starts_with(' ')) after.remove_prefix(1);
        const size_t open = before.find_last_of("()");
        const bool in_tuple = open != before.npos && before[open] == '(' &&
                              before.substr(0, open).ends_with(" in ");
        if (before.ends_with("==") || before.ends_with("!=") || in_tuple ||
            after.starts_with("==") || after.starts_with("!=")) {
          found.insert(name);
        }
      }
    }
  }
  return found;
}

// The table of docs/architecture.md: | `folder` | what it is | `folder`, `folder` |.
// Folders below model/ and server/ stand by their last name.
Rules DocumentedRules() {
  static const std::regex row(R"(^\| `([^`]+?)/?` \|.*\|([^|]*)\|$)");
  static const std::regex name("`([^`]+)`");
  std::ifstream file(MNEMON_SOURCE_DIR "/docs/architecture.md");
  Rules rules;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (!std::regex_match(line, match, row)) continue;
    const std::string folder = match[1], includes = match[2];
    if (!ProjectRules().contains(folder)) continue;
    std::set<std::string>& to = rules[folder];
    if (folder != "base") to.insert("base");
    for (std::sregex_iterator it(includes.begin(), includes.end(), name), end;
         it != end; ++it) {
      std::string full = (*it)[1];
      for (const char* above : {"model/", "server/"}) {
        if (ProjectRules().contains(above + full)) full = above + full;
      }
      to.insert(full);
    }
  }
  return rules;
}

TEST(Project, IsReadWhole) {
  EXPECT_TRUE(Project().contains("model/sequence/model.h"));
  EXPECT_TRUE(Project().contains("server/main.cc"));
  EXPECT_TRUE(Project().contains("tests/layering_test.cc"));
  for (const auto& [path, includes] : Project()) {
    EXPECT_EQ(path.find("build/"), std::string::npos) << path;
  }
}

TEST(Project, HasNoUnknownEdge) {
  EXPECT_THAT(UnknownEdges(Project(), ProjectRules()), IsEmpty());
}

TEST(Project, UsesAllThatIsAllowed) {
  EXPECT_THAT(UnusedRules(Project(), ProjectRules()), IsEmpty());
}

TEST(Project, IsDocumented) { EXPECT_EQ(DocumentedRules(), ProjectRules()); }

// Folders are ideas: one more needs a better reason than a technique of its own.
TEST(Project, ModelHasFewFolders) {
  std::set<std::string> folders;
  for (const auto& [path, includes] : Project()) {
    const size_t end = path.find('/', sizeof("model/") - 1);
    if (path.starts_with("model/") && end != std::string::npos) {
      folders.insert(path.substr(0, end));
    }
  }
  EXPECT_LE(folders.size(), 14);
}

// What a model computes follows from its description. bench/peers stands for programs
// of others, each written for the models that it names.
TEST(Project, ComparesNoArchitectureOutsideFamilies) {
  std::vector<std::string> compared;
  for (const std::string& path :
       FilesOf(MNEMON_SOURCE_DIR, {".h", ".cc", ".cu", ".js", ".py"})) {
    if (path.starts_with("model/families/") || path.starts_with("bench/peers/") ||
        path.starts_with("tests/")) {
      continue;
    }
    std::ifstream file(std::string(MNEMON_SOURCE_DIR "/") + path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const std::string& name : ComparedNames(text, TypedNames())) {
      compared.push_back(path + ": " + name);
    }
  }
  EXPECT_THAT(compared, IsEmpty());
}

TEST(ComparedNames, AreFound) {
  const std::vector<std::string> names = {"causal", "encoder"};
  EXPECT_THAT(ComparedNames(R"(if (a.name == "causal") {})", names),
              ElementsAre("causal"));
  EXPECT_THAT(ComparedNames("x = 'encoder' !== model.kind", names),
              ElementsAre("encoder"));
  EXPECT_THAT(ComparedNames("if kind in (\"xl\", \"causal\"):", names),
              ElementsAre("causal"));
  EXPECT_THAT(ComparedNames(R"(Checkpoint(options, "causal"), b == "encoders")", names),
              IsEmpty());
}

TEST(Project, HasNoCycle) { EXPECT_THAT(Cycles(Project()), IsEmpty()); }

TEST(Project, TorchAndProtobufNeverMeet) {
  EXPECT_THAT(TorchMeetsProtobuf(Project()), IsEmpty());
}

TEST(Project, TorchFreeFilesAreTorchFree) {
  EXPECT_THAT(TorchInTorchFree(Project()), IsEmpty());
}

TEST(Project, NoHeavyTorchHeader) { EXPECT_THAT(HeavyTorch(Project()), IsEmpty()); }

TEST(Project, PublicHeadersShowNoProtobuf) {
  EXPECT_THAT(ProtobufInPublicHeaders(Project()), IsEmpty());
}

TEST(Project, OnlyServerRpcKnowsGrpc) {
  EXPECT_THAT(GrpcOutsideItsDoor(Project()), IsEmpty());
}

// Every layer lies above all those that it may include, so what is allowed can never
// form a cycle.
TEST(Rules, CanBeOrdered) {
  std::set<std::string> placed;
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [layer, allowed] : ProjectRules()) {
      const bool ready =
          std::all_of(allowed.begin(), allowed.end(),
                      [&](const auto& to) { return placed.contains(to); });
      if (ready) grew |= placed.insert(layer).second;
    }
  }
  EXPECT_EQ(placed.size(), ProjectRules().size());
}

TEST(LayerOf, PlacesFiles) {
  EXPECT_EQ(LayerOf("base/files/file.cc"), "base");
  EXPECT_EQ(LayerOf("model/state/arena.h"), "model/state");
  EXPECT_EQ(LayerOf("model/blocks/attention/step.cc"), "model/blocks");
  EXPECT_EQ(LayerOf("model/compute/cuda/linear.h"), "model/compute");
  EXPECT_EQ(LayerOf("model/compute/device/device_driver.h"), "model/compute/device");
  EXPECT_EQ(LayerOf("server/main.cc"), "server");
  EXPECT_EQ(LayerOf("server/rpc/server.h"), "server/rpc");
  EXPECT_EQ(LayerOf("server/cache/store.h"), "");
  EXPECT_EQ(LayerOf("train/fit/learner.h"), "train/fit");
  EXPECT_EQ(LayerOf("train/learner.h"), "");
  EXPECT_EQ(LayerOf("client/client.h"), "client");
  EXPECT_EQ(LayerOf("client/load/load.h"), "client/load");
  EXPECT_EQ(LayerOf("bench/serving/scenarios/idle.cc"), "bench/serving/scenarios");
  EXPECT_EQ(LayerOf("client/cache/store.h"), "");
  EXPECT_EQ(LayerOf("bench/probe.h"), "");
  EXPECT_EQ(LayerOf("mnemon/v1/sessions.grpc.pb.h"), "proto");
  EXPECT_EQ(LayerOf("model/config.h"), "");
  EXPECT_EQ(LayerOf("model/unheard_of/config.h"), "");
  EXPECT_EQ(LayerOf("tests/model/io/load_test.cc"), "tests");
  EXPECT_EQ(LayerOf("vector"), "");
}

TEST(ParseIncludes, FindsEveryForm) {
  EXPECT_THAT(ParseIncludes("#include <vector>\n"
                            "  #  include \"base/files/file.h\"  // why\n"
                            "#include<ATen/ops/mm.h>\r\n"
                            "// #include \"no.h\"\n"
                            "const char* s = \"#include <no>\";"),
              ElementsAre("vector", "base/files/file.h", "ATen/ops/mm.h"));
}

TEST(ResolveIncludes, FollowsRelativePaths) {
  Tree tree = {{"server/engine/a.cc", {"../rpc/b.h", "c.h", "base/d.h"}},
               {"server/rpc/b.h", {}},
               {"server/engine/c.h", {}},
               {"base/d.h", {}}};
  ResolveIncludes(tree);
  EXPECT_THAT(tree["server/engine/a.cc"],
              ElementsAre("server/rpc/b.h", "server/engine/c.h", "base/d.h"));
}

TEST(UnknownEdges, AreFound) {
  EXPECT_THAT(
      UnknownEdges({{"server/engine/a.cc", {"model/sequence/model.h", "base/b.h"}}},
                   ProjectRules()),
      ElementsAre(HasSubstr("server/engine may not include model/sequence")));
  EXPECT_THAT(UnknownEdges({{"base/a.h", {"model/families/config.h"}}}, ProjectRules()),
              ElementsAre(HasSubstr("base may not include model/families")));
  EXPECT_THAT(
      UnknownEdges({{"train/fit/a.cc", {"server/engine/engine.h"}}}, ProjectRules()),
      ElementsAre(HasSubstr("train/fit may not include server/engine")));
  EXPECT_THAT(UnknownEdges({{"model/io/a.cc", {"model/program/a.h"}}}, ProjectRules()),
              ElementsAre(HasSubstr("model/io may not include model/program")));
  EXPECT_THAT(UnknownEdges({{"train/fit/a.cc", {"tests/fakes/b.h"}}}, ProjectRules()),
              ElementsAre(HasSubstr("train/fit may not include tests")));
  EXPECT_THAT(UnknownEdges({{"train/fit/a.cc", {"server/store/a.h"}}}, ProjectRules()),
              ElementsAre(HasSubstr("train/fit may not include server/store")));
  EXPECT_THAT(
      UnknownEdges({{"client/client.cc", {"client/load/load.h"}}}, ProjectRules()),
      ElementsAre(HasSubstr("client may not include client/load")));
  EXPECT_THAT(UnknownEdges({{"client/load/load.cc", {"client/terminal/table.h"}}},
                           ProjectRules()),
              ElementsAre(HasSubstr("client/load may not include client/terminal")));
  EXPECT_THAT(UnknownEdges({{"client/tables/a.cc", {}}}, ProjectRules()),
              ElementsAre("client/tables/a.cc belongs to no layer"));
  EXPECT_THAT(UnknownEdges({{"helpers/a.cc", {}}}, ProjectRules()),
              ElementsAre("helpers/a.cc belongs to no layer"));
  EXPECT_THAT(UnknownEdges({{"tests/a.cc", {"model/sequence/model.h", "client/c.h"}}},
                           ProjectRules()),
              IsEmpty());
}

TEST(UnusedRules, AreFound) {
  const Rules rules = {{"base", {}},
                       {"proto", {"base"}},
                       {"client", {"base", "proto", "model/io"}},
                       {"bench/wire", {"client"}}};
  const Tree tree = {{"base/a.h", {}},
                     {"client/a.cc", {"mnemon/v1/a.pb.h", "client/b.h"}}};
  EXPECT_THAT(
      UnusedRules(tree, rules),
      ElementsAre("no file is in bench/wire", "no file of bench/wire includes client",
                  "no file of client includes model/io"));
}

TEST(Cycles, AreFoundBetweenFolders) {
  EXPECT_THAT(
      Cycles({{"model/families/config.h", {"model/io/a.h"}},
              {"model/io/b.cc", {"model/sequence/model.h"}},
              {"model/sequence/model.h", {"model/families/config.h"}}}),
      ElementsAre(
          "folders: model/families > model/io > model/sequence > model/families"));
  EXPECT_THAT(Cycles({{"client/load/a.h", {"client/b.h"}},
                      {"client/c.cc", {"client/load/a.h"}}}),
              ElementsAre("folders: client > client/load > client"));
}

TEST(Cycles, AreFoundBetweenFilesOfOneFolder) {
  EXPECT_THAT(Cycles({{"base/a.h", {"base/b.h"}}, {"base/b.h", {"base/a.h"}}}),
              ElementsAre("files: base/a.h > base/b.h > base/a.h"));
}

TEST(Cycles, IgnoreADiamond) {
  EXPECT_THAT(
      Cycles({{"train/fit/a.cc", {"model/sequence/model.h", "model/families/config.h"}},
              {"model/sequence/model.h", {"model/families/config.h"}},
              {"model/families/config.h", {"base/a.h"}}}),
      IsEmpty());
}

TEST(TorchMeetsProtobuf, IsFoundThroughThreeHops) {
  const Tree tree = {{"tests/a.cc", {"tests/b.h", "client/c.h"}},
                     {"tests/b.h", {"model/d.h"}},
                     {"model/d.h", {"model/e.h"}},
                     {"model/e.h", {"ATen/core/Tensor.h"}},
                     {"client/c.h", {"mnemon/v1/models.pb.h"}}};
  EXPECT_THAT(TorchMeetsProtobuf(tree),
              ElementsAre("tests/a.cc > tests/b.h > model/d.h > model/e.h > "
                          "ATen/core/Tensor.h and tests/a.cc > client/c.h > "
                          "mnemon/v1/models.pb.h"));
}

TEST(TorchMeetsProtobuf, KnowsBothFamilies) {
  for (const char* torch : {"torch/torch.h", "c10/util/Half.h", "ATen/ops/mm.h"}) {
    for (const char* other : {"grpcpp/grpcpp.h", "grpc/grpc.h",
                              "google/protobuf/message.h", "x.grpc.pb.h"}) {
      EXPECT_EQ(TorchMeetsProtobuf({{"tests/a.cc", {torch, other}}}).size(), 1);
    }
    EXPECT_THAT(TorchMeetsProtobuf({{"tests/a.cc", {torch, "vector"}}}), IsEmpty());
  }
}

TEST(TorchInTorchFree, IsFound) {
  for (const char* path :
       {"model/families/config.h", "model/state/state.cc", "model/state/arena.h",
        "model/decoder/decoder.h", "model/compute/weights.h", "model/compute/cpu.cc",
        "model/blocks/attention/step.cc", "server/engine/engine.cc",
        "model/program/step/step_program.cc", "model/text/a.cc",
        "model/families/families.cc", "model/load/load.cc", "server/main.cc",
        "train/run/metrics.h"}) {
    const Tree tree = {{path, {"model/x.h"}}, {"model/x.h", {"c10/util/Half.h"}}};
    EXPECT_EQ(TorchInTorchFree(tree).size(), 1) << path;
  }
  for (const char* path : {"model/sequence/model.h", "model/blocks/a/forward_torch.cc",
                           "train/commands/main.cc"}) {
    EXPECT_THAT(TorchInTorchFree({{path, {"ATen/core/Tensor.h"}}}), IsEmpty()) << path;
  }
}

TEST(HeavyTorch, IsFound) {
  EXPECT_EQ(HeavyTorch({{"train/fit/a.h", {"torch/torch.h"}}}).size(), 1);
  EXPECT_EQ(HeavyTorch({{"train/fit/a.h", {"torch/nn/module.h"}}}).size(), 1);
  EXPECT_EQ(HeavyTorch({{"model/sequence/a.cc", {"torch/torch.h"}}}).size(), 1);
  EXPECT_EQ(HeavyTorch({{"model/sequence/model.cc", {"ATen/ATen.h"}}}).size(), 1);
  EXPECT_THAT(HeavyTorch({{"train/fit/a.cc", {"torch/torch.h"}},
                          {"model/sequence/b.cc", {"ATen/ops/mm.h"}}}),
              IsEmpty());
}

TEST(ProtobufInPublicHeaders, IsFound) {
  const Tree tree = {{"client/client.h", {"client/channel.h"}},
                     {"client/channel.h", {"grpcpp/channel.h"}},
                     {"server/rpc/server.h", {"vector"}},
                     {"server/rpc/reactor.h", {"grpcpp/grpcpp.h"}}};
  EXPECT_THAT(ProtobufInPublicHeaders(tree),
              ElementsAre("client/client.h > client/channel.h > grpcpp/channel.h"));
}

TEST(GrpcOutsideItsDoor, IsFound) {
  const Tree tree = {{"server/service/a.h", {"mnemon/v1/models.pb.h"}},
                     {"server/service/b.h", {"mnemon/v1/models.grpc.pb.h"}},
                     {"server/gateway/c.cc", {"server/service/b.h"}},
                     {"server/rpc/d.cc", {"grpcpp/grpcpp.h"}},
                     {"client/e.cc", {"grpcpp/grpcpp.h"}}};
  EXPECT_THAT(GrpcOutsideItsDoor(tree),
              ElementsAre("server/gateway/c.cc > server/service/b.h > "
                          "mnemon/v1/models.grpc.pb.h",
                          "server/service/b.h > mnemon/v1/models.grpc.pb.h"));
}

}  // namespace
}  // namespace mnemon::layering
