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

// Files directly in model/ form several layers; the key is the name without extension.
const std::map<std::string, std::string, std::less<>>& ModelFiles() {
  static const std::map<std::string, std::string, std::less<>> files = {
      {"config", "model/config"},
      {"state", "model/state"},
      {"arena", "model/state"},
      {"weights", "model/weights"},
      {"tensor_names", "model/weights"},
      {"decoder", "model/decoder"},
      {"model", "model/model"},
      {"initialise", "model/model"},
      {"runtime", "model/model"},
      {"device", "model/model"},
      {"gpu", "model/model"},
      {"gpu_none", "model/model"},
      {"gpu_cuda", "model/model"},
      {"default_decoder", "model/default_decoder"},
      {"default_predictor", "model/default_decoder"},
      {"registry", "registry"},
      {"decoder_flags", "registry"},
      {"load", "model/load"},
  };
  return files;
}

bool MustBeTorchFree(std::string_view path) {
  static const std::set<std::string, std::less<>> layers = {
      "base",     "kernels",       "model/config", "model/state",  "model/weights",
      "sampling", "model/decoder", "text",         "server/state", "server/engine",
      "proto",    "server/rpc",    "server/http",  "client"};
  return layers.contains(LayerOf(path)) || EndsWith(path, "_step.cc");
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
  // A layer, and those it may include. Only the registry includes arch.
  static constexpr std::pair<const char*, const char*> kAllowed[] = {
      {"base", ""},
      {"kernels", "base"},
      {"model/config", "base"},
      {"model/state", "model/config kernels base"},
      {"model/weights", "model/state model/config base"},
      {"model/decoder", "model/weights model/state model/config kernels base"},
      {"model/model", "model/decoder model/weights model/state model/config base"},
      {"model/default_decoder", "model/model model/decoder model/state kernels base"},
      {"layers", "model/weights model/state model/config kernels base"},
      {"arch",
       "layers model/default_decoder model/model model/decoder model/weights "
       "model/state model/config kernels base"},
      {"registry",
       "arch model/default_decoder model/model model/decoder model/weights "
       "model/state model/config kernels base"},
      {"io", "model/model model/weights model/config base"},
      {"text", "model/config base"},
      {"sampling", "kernels base"},
      {"model/load",
       "registry io text model/model model/decoder model/weights model/state "
       "model/config base"},
      {"server/state", "model/state base"},
      {"server/engine",
       "server/state model/decoder model/state model/config sampling text base"},
      {"proto", ""},
      {"server/rpc", "server/engine proto base"},
      {"server/http", "server/engine base"},
      {"server/main",
       "server/rpc server/http server/engine server/state model/load registry io text "
       "model/model model/decoder model/config kernels base"},
      {"train",
       "model/load registry io text sampling layers model/default_decoder model/model "
       "model/decoder model/weights model/state model/config kernels base"},
      {"client", "proto base"},
      {"bench",
       "train client server/engine server/state model/load registry io text sampling "
       "layers model/default_decoder model/model model/decoder model/weights "
       "model/state model/config kernels base"},
  };
  static const Rules rules = [] {
    Rules parsed;
    for (const auto& [layer, allowed] : kAllowed) {
      std::istringstream names(allowed);
      std::set<std::string>& to = parsed[layer];
      for (std::string name; names >> name;) to.insert(name);
    }
    return parsed;
  }();
  return rules;
}

std::string LayerOf(std::string_view path) {
  static constexpr std::pair<const char*, const char*> kFolders[] = {
      {"base/", "base"},
      {"model/kernels/", "kernels"},
      {"model/layers/", "layers"},
      {"model/arch/", "arch"},
      {"model/io/", "io"},
      {"model/text/", "text"},
      {"model/sampling/", "sampling"},
      {"server/state/", "server/state"},
      {"server/engine/", "server/engine"},
      {"server/rpc/", "server/rpc"},
      {"server/http/", "server/http"},
      {"train/", "train"},
      {"client/", "client"},
      {"bench/", "bench"},
      {"tests/", "tests"},
      {"proto/", "proto"},
      {"mnemon/v1/", "proto"},
      {"google/rpc/", "proto"},
  };
  for (const auto& [prefix, layer] : kFolders) {
    if (StartsWith(path, prefix)) return layer;
  }
  const fs::path file(path);
  if (file.parent_path() == "server") return "server/main";
  if (file.parent_path() == "model") {
    auto layer = ModelFiles().find(file.stem().string());
    if (layer != ModelFiles().end()) return layer->second;
  }
  return "";
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

Tree ReadTree(const std::string& root) {
  static const std::set<std::string> kSources = {".h", ".hpp", ".cc",  ".cpp",
                                                 ".c", ".cu",  ".cuh", ".inc"};
  Tree tree;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory()) {
      if (name[0] == '.' || (it.depth() == 0 && StartsWith(name, "build")) ||
          fs::exists(it->path() / "CMakeCache.txt")) {
        it.disable_recursion_pending();
      }
      continue;
    }
    if (!it->is_regular_file() || !kSources.contains(it->path().extension())) continue;
    std::ifstream file(it->path());
    std::stringstream text;
    text << file.rdbuf();
    tree[fs::relative(it->path(), root).string()] = ParseIncludes(text.str());
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

std::vector<std::string> Cycles(const Tree& tree) {
  Graph layers, files;
  for (const auto& [path, includes] : tree) {
    const std::string from = LayerOf(path);
    for (const std::string& include : includes) {
      files[path].insert(include);
      const std::string to = LayerOf(include);
      if (!from.empty() && !to.empty() && from != to) layers[from].insert(to);
    }
  }
  std::vector<std::string> faults;
  if (auto cycle = FindCycle(layers)) faults.push_back("layers: " + *cycle);
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
      const bool outside = LayerOf(path) != "train";
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
  for (const char* path : {"server/rpc/server.h", "client/client.h"}) {
    if (auto protobuf = Chain(tree, path, IsProtobuf)) faults.push_back(*protobuf);
  }
  return faults;
}

}  // namespace mnemon::layering
