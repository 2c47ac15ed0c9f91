// SPDX-License-Identifier: MIT
// Rules of which folder may include which, checked on all #include lines.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon::layering {

// The includes of every source file, by path from the root of the tree; an include that
// names a file of the tree is that file's path, any other is unchanged.
using Tree = std::map<std::string, std::vector<std::string>>;

// Layer -> layers it may include (itself is always allowed).
using Rules = std::map<std::string, std::set<std::string>>;

// The allow-list of docs/architecture.md.
const Rules& ProjectRules();

// The layer of a file or of a generated header ("mnemon/v1/x.pb.h" is proto); empty if
// the path belongs to no layer.
std::string LayerOf(std::string_view path);

// Targets of the #include lines of `source`, in order.
std::vector<std::string> ParseIncludes(std::string_view source);

// Replaces includes that name files of `tree` (from the root, or from the folder of the
// including file) by those files' paths.
void ResolveIncludes(Tree& tree);

// Paths of the files below `root` that end in one of `extensions`, without build
// folders and hidden folders.
std::vector<std::string> FilesOf(const std::string& root,
                                 const std::set<std::string>& extensions);

// Reads all C++ and CUDA sources below `root`.
Tree ReadTree(const std::string& root);

// Each function returns one line per violation, naming the files in the chain.

// Edges between layers that `rules` do not allow, and files that belong to no layer.
std::vector<std::string> UnknownEdges(const Tree& tree, const Rules& rules);

// Layers of `rules` without files, and allowed edges that no file uses, except those to
// base.
std::vector<std::string> UnusedRules(const Tree& tree, const Rules& rules);

// A cycle between folders, or between files, each listed once.
std::vector<std::string> Cycles(const Tree& tree);

// Files that reach headers of both torch and protobuf (or gRPC).
std::vector<std::string> TorchMeetsProtobuf(const Tree& tree);

// Files that must be free of torch and reach one of its headers.
std::vector<std::string> TorchInTorchFree(const Tree& tree);

// Headers that include torch/torch.h or torch/nn*, and files outside train/ that
// include torch/torch.h or all of ATen.
std::vector<std::string> HeavyTorch(const Tree& tree);

// Public headers of server/service, server/rpc, server/gateway and client that reach
// protobuf or gRPC.
std::vector<std::string> ProtobufInPublicHeaders(const Tree& tree);

// Files of the server outside server/rpc that reach gRPC.
std::vector<std::string> GrpcOutsideItsDoor(const Tree& tree);

}  // namespace mnemon::layering
