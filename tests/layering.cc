// SPDX-License-Identifier: MIT
#include "tests/layering.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <regex>
#include <sstream>

namespace mnemon::layering {
namespace {

namespace fs = std::filesystem;

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

bool IsHeader(std::string_view path) {
  return EndsWith(path, ".h") || EndsWith(path, ".hpp") || EndsWith(path, ".cuh");
}

bool IsTorch(std::string_view include) {
  return StartsWith(include, "torch/") || StartsWith(include, "ATen/") ||
         StartsWith(include, "c10/") || StartsWith(include, "caffe2/");
}

bool IsProtobuf(std::string_view include) {
  return StartsWith(include, "google/protobuf/") || StartsWith(include, "grpc") ||
         EndsWith(include, ".pb.h");
}

bool IsGrpc(std::string_view include) {
  return StartsWith(include, "grpc") || EndsWith(include, ".grpc.pb.h");
}

bool MustBeTorchFree(std::string_view path) {
  static const std::set<std::string, std::less<>> layers = {"base",
                                                            "model/compute",
                                                            "model/compute/device",
                                                            "model/operations",
                                                            "model/state",
                                                            "model/description",
                                                            "model/decoder",
                                                            "model/families",
                                                            "model/program",
                                                            "model/io",
                                                            "model/text",
                                                            "model/sampling",
                                                            "model/load",
                                                            "model/gradient",
                                                            "server/requests",
                                                            "server/waiting",
                                                            "server/admission",
                                                            "server/residency",
                                                            "server/streams",
                                                            "server/sessions",
                                                            "server/sessions/listing",
                                                            "server/calls",
                                                            "server/run",
                                                            "server/tasks",
                                                            "server/snapshots",
                                                            "server/store",
                                                            "server/durability",
                                                            "server/engine",
                                                            "server/service",
                                                            "server/rpc",
                                                            "server/transport",
                                                            "server/http",
                                                            "server/gateway",
                                                            "server",
                                                            "train/run",
                                                            "proto",
                                                            "client",
                                                            "client/examples",
                                                            "client/terminal",
                                                            "client/chat",
                                                            "client/load",
                                                            "client/commands",
                                                            "bench/figures",
                                                            "bench/wire",
                                                            "bench/serving",
                                                            "bench/serving/scenarios"};
  const std::string layer = LayerOf(path);
  // The sequence forms of blocks are told by their names.
  if (layer == "model/blocks") {
    const std::string stem = fs::path(path).stem().string();
    return !EndsWith(stem, "_torch");
  }
  return layers.contains(layer);
}

// The shortest chain of includes from `file` to something that `wanted` accepts,
// "a.cc > b.h > torch/x.h"; nullopt when there is none.
std::optional<std::string> Chain(const Tree& tree, const std::string& file,
                                 bool (*wanted)(std::string_view)) {
  std::map<std::string, std::string> parent = {{file, ""}};
  std::vector<std::string> queue = {file};
  for (size_t i = 0; i < queue.size(); ++i) {
    const std::string at = queue[i];
    if (i > 0 && wanted(at)) {
      std::string chain = at;
      for (std::string up = parent[at]; !up.empty(); up = parent[up]) {
        chain = up + " > " + chain;
      }
      return chain;
    }
    auto includes = tree.find(at);
    if (includes == tree.end()) continue;
    for (const std::string& next : includes->second) {
      if (parent.emplace(next, at).second) queue.push_back(next);
    }
  }
  return std::nullopt;
}

using Graph = std::map<std::string, std::set<std::string>>;

// One cycle of `graph`, "a > b > a"; nullopt when there is none.
std::optional<std::string> FindCycle(const Graph& graph) {
  std::set<std::string> done;
  std::vector<std::string> path;
  std::function<std::optional<std::string>(const std::string&)> visit =
      [&](const std::string& node) -> std::optional<std::string> {
    auto seen = std::find(path.begin(), path.end(), node);
    if (seen != path.end()) {
      std::string cycle;
      for (auto at = seen; at != path.end(); ++at) cycle += *at + " > ";
      return cycle + node;
    }
    auto next = graph.find(node);
    if (next == graph.end() || done.contains(node)) return std::nullopt;
    path.push_back(node);
    for (const std::string& to : next->second) {
      if (auto cycle = visit(to)) return cycle;
    }
    path.pop_back();
    done.insert(node);
    return std::nullopt;
  };
  for (const auto& [node, unused] : graph) {
    if (auto cycle = visit(node)) return cycle;
  }
  return std::nullopt;
}

}  // namespace

const Rules& ProjectRules() {
  // A folder, and those it may include besides base.
  static constexpr std::pair<const char*, const char*> kAllowed[] = {
      {"base", ""},
      {"proto", ""},
      {"model/compute", ""},
      {"model/state", "model/compute"},
      {"model/blocks", "model/state model/compute"},
      {"model/operations", "model/blocks model/compute"},
      {"model/sampling", "model/operations model/compute"},
      {"model/compute/device",
       "model/sampling model/operations model/state model/compute"},
      {"model/description", "model/blocks model/state model/compute"},
      {"model/families", "model/description model/blocks model/compute"},
      {"model/decoder", "model/description model/sampling model/state model/compute"},
      {"model/gradient", "model/description model/blocks model/compute"},
      {"model/program",
       "model/decoder model/description model/compute/device model/sampling "
       "model/operations model/blocks model/state model/compute"},
      {"model/text", ""},
      {"model/io", "model/families model/compute"},
      {"model/load",
       "model/io model/text model/program model/decoder model/families "
       "model/description model/compute/device model/sampling model/compute"},
      {"model/sequence",
       "model/load model/io model/text model/program model/decoder model/families "
       "model/description model/blocks model/state model/compute"},
      {"server/requests", "model/text model/decoder model/sampling"},
      {"server/waiting", "server/requests"},
      {"server/admission", ""},
      {"server/residency", "server/requests model/state"},
      {"server/streams", "server/waiting server/requests model/text"},
      {"server/sessions", "server/residency server/waiting server/requests"},
      {"server/sessions/listing", "server/requests"},
      {"server/calls",
       "server/sessions server/streams server/admission server/requests model/text "
       "model/sampling"},
      {"server/run",
       "server/calls server/sessions server/streams server/residency "
       "server/admission server/waiting server/requests model/decoder model/sampling "
       "model/state"},
      {"server/tasks", "server/run server/sessions server/waiting server/requests"},
      {"server/snapshots", "model/state"},
      {"server/store", ""},
      {"server/durability",
       "server/store server/snapshots server/tasks server/run server/sessions "
       "server/streams server/waiting server/requests model/state"},
      {"server/engine",
       "server/durability server/tasks server/run server/calls "
       "server/sessions/listing server/sessions server/streams server/waiting "
       "server/requests model/text"},
      {"server/transport", ""},
      {"server/service",
       "server/transport server/engine server/streams server/waiting server/requests "
       "proto"},
      {"server/rpc", "server/service server/transport server/engine proto"},
      {"server/http",
       "server/service server/transport server/engine server/durability "
       "server/requests"},
      {"server/gateway",
       "server/http server/service server/engine server/requests proto"},
      {"server",
       "server/gateway server/http server/rpc server/service server/transport "
       "server/engine server/durability server/store server/sessions "
       "server/residency server/requests model/load model/program "
       "model/compute/device model/state model/compute"},
      {"train/parallel", "model/compute"},
      {"train/data",
       "train/parallel model/sequence model/io model/text model/families "
       "model/sampling model/compute"},
      {"train/run", "model/io model/families"},
      {"train/fit",
       "train/run train/data train/parallel model/sequence model/io model/text "
       "model/gradient model/families model/sampling model/blocks model/compute"},
      {"train/report", "train/run train/data model/sequence model/io model/families"},
      {"train/commands",
       "train/report train/fit train/run train/data train/parallel model/sequence "
       "model/load model/io model/text model/program model/decoder model/families "
       "model/compute/device model/sampling model/state model/compute"},
      {"client", "proto"},
      {"client/examples", "client"},
      {"client/terminal", "client"},
      {"client/chat", "client/terminal client"},
      {"client/load", "client"},
      {"client/commands", "client/load client/chat client/terminal client"},
      {"bench/figures", ""},
      {"bench/kernels",
       "bench/figures train/commands server/engine model/sequence model/io "
       "model/decoder model/families model/description model/sampling "
       "model/operations model/state model/compute"},
      {"bench/wire", ""},
      {"bench/serving", "bench/figures client/load client proto"},
      {"bench/serving/scenarios", "bench/serving bench/wire client"},
  };
  static const Rules rules = [] {
    Rules parsed;
    for (const auto& [layer, allowed] : kAllowed) {
      std::istringstream names(allowed);
      std::set<std::string>& to = parsed[layer];
      for (std::string name; names >> name;) to.insert(name);
      if (layer != std::string("base")) to.insert("base");
    }
    return parsed;
  }();
  return rules;
}

// A file's folder. Rooms of base/ belong to base; those of model/ and server/ that have
// no rules of their own belong to the folder of the second level.
std::string LayerOf(std::string_view path) {
  for (const char* generated : {"mnemon/v1/", "google/rpc/"}) {
    if (StartsWith(path, generated)) return "proto";
  }
  const fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) return "";
  const std::string top = folder.begin()->string();
  if (top == "tests" || top == "base") return top;
  std::string layer = folder.string();
  if (!ProjectRules().contains(layer) && (top == "model" || top == "server") &&
      folder != top) {
    layer = top + "/" + std::next(folder.begin())->string();
  }
  return ProjectRules().contains(layer) ? layer : "";
}

std::vector<std::string> ParseIncludes(std::string_view source) {
  static const std::regex include(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<std::string> includes;
  std::istringstream lines{std::string(source)};
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, include)) includes.push_back(match[1]);
  }
  return includes;
}

void ResolveIncludes(Tree& tree) {
  for (auto& [path, includes] : tree) {
    for (std::string& include : includes) {
      const std::string from_root = fs::path(include).lexically_normal().string();
      const std::string beside =
          (fs::path(path).parent_path() / include).lexically_normal().string();
      if (tree.contains(beside)) {
        include = beside;
      } else if (tree.contains(from_root)) {
        include = from_root;
      }
    }
  }
}

std::vector<std::string> FilesOf(const std::string& root,
                                 const std::set<std::string>& extensions) {
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory()) {
      if (name[0] == '.' || (it.depth() == 0 && StartsWith(name, "build")) ||
          fs::exists(it->path() / "CMakeCache.txt")) {
        it.disable_recursion_pending();
      }
      continue;
    }
    if (it->is_regular_file() && extensions.contains(it->path().extension())) {
      files.push_back(fs::relative(it->path(), root).string());
    }
  }
  return files;
}

Tree ReadTree(const std::string& root) {
  Tree tree;
  for (const std::string& path :
       FilesOf(root, {".h", ".hpp", ".cc", ".cpp", ".c", ".cu", ".cuh", ".inc"})) {
    std::ifstream file(fs::path(root) / path);
    std::stringstream text;
    text << file.rdbuf();
    tree[path] = ParseIncludes(text.str());
  }
  ResolveIncludes(tree);
  return tree;
}

std::vector<std::string> UnknownEdges(const Tree& tree, const Rules& rules) {
  std::vector<std::string> faults;
  for (const auto& [path, includes] : tree) {
    const std::string from = LayerOf(path);
    if (from == "tests") continue;
    auto allowed = rules.find(from);
    if (allowed == rules.end()) {
      faults.push_back(path + " belongs to no layer");
      continue;
    }
    for (const std::string& include : includes) {
      const std::string to = LayerOf(include);
      if (to.empty() || to == from || allowed->second.contains(to)) continue;
      faults.push_back(path + " includes " + include + ": " + from +
                       " may not include " + to);
    }
  }
  return faults;
}

std::vector<std::string> UnusedRules(const Tree& tree, const Rules& rules) {
  std::set<std::string> layers;
  Rules used;
  for (const auto& [path, includes] : tree) {
    const std::string from = LayerOf(path);
    layers.insert(from);
    for (const std::string& include : includes) {
      const std::string to = LayerOf(include);
      layers.insert(to);
      used[from].insert(to);
    }
  }
  std::vector<std::string> faults;
  for (const auto& [from, allowed] : rules) {
    if (!layers.contains(from)) faults.push_back("no file is in " + from);
    for (const std::string& to : allowed) {
      if (to == "base" || used[from].contains(to)) continue;
      faults.push_back("no file of " + from + " includes " + to);
    }
  }
  return faults;
}

std::vector<std::string> Cycles(const Tree& tree) {
  Graph folders, files;
  for (const auto& [path, includes] : tree) {
    const std::string from = fs::path(path).parent_path().string();
    for (const std::string& include : includes) {
      files[path].insert(include);
      const std::string to = fs::path(include).parent_path().string();
      if (!LayerOf(include).empty() && from != to) folders[from].insert(to);
    }
  }
  std::vector<std::string> faults;
  if (auto cycle = FindCycle(folders)) faults.push_back("folders: " + *cycle);
  if (auto cycle = FindCycle(files)) faults.push_back("files: " + *cycle);
  return faults;
}

std::vector<std::string> TorchMeetsProtobuf(const Tree& tree) {
  std::vector<std::string> faults;
  for (const auto& [path, includes] : tree) {
    auto torch = Chain(tree, path, IsTorch);
    auto protobuf = Chain(tree, path, IsProtobuf);
    if (torch && protobuf) faults.push_back(*torch + " and " + *protobuf);
  }
  return faults;
}

std::vector<std::string> TorchInTorchFree(const Tree& tree) {
  std::vector<std::string> faults;
  for (const auto& [path, includes] : tree) {
    if (!MustBeTorchFree(path)) continue;
    if (auto torch = Chain(tree, path, IsTorch)) faults.push_back(*torch);
  }
  return faults;
}

std::vector<std::string> HeavyTorch(const Tree& tree) {
  std::vector<std::string> faults;
  for (const auto& [path, includes] : tree) {
    for (const std::string& include : includes) {
      const bool everything = include == "torch/torch.h" || include == "torch/all.h" ||
                              include == "torch/extension.h";
      const bool modules = include == "torch/nn.h" || StartsWith(include, "torch/nn/");
      const bool all_of_aten =
          include == "ATen/ATen.h" || include == "ATen/Functions.h";
      const bool outside = !StartsWith(path, "train/");
      if ((IsHeader(path) && (everything || modules)) ||
          (outside && (everything || modules || all_of_aten))) {
        faults.push_back(path + " includes " + include);
      }
    }
  }
  return faults;
}

std::vector<std::string> ProtobufInPublicHeaders(const Tree& tree) {
  std::vector<std::string> faults;
  for (const char* path : {"server/service/service.h", "server/rpc/server.h",
                           "server/gateway/gateway.h", "client/client.h"}) {
    if (auto protobuf = Chain(tree, path, IsProtobuf)) faults.push_back(*protobuf);
  }
  return faults;
}

std::vector<std::string> GrpcOutsideItsDoor(const Tree& tree) {
  std::vector<std::string> faults;
  for (const auto& [path, includes] : tree) {
    const std::string layer = LayerOf(path);
    if (!StartsWith(layer, "server") || layer == "server/rpc") continue;
    if (auto grpc = Chain(tree, path, IsGrpc)) faults.push_back(*grpc);
  }
  return faults;
}

}  // namespace mnemon::layering
