// SPDX-License-Identifier: MIT
#include "client/chat/call_file.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/files/file.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace mnemon::client {
namespace {

constexpr size_t kKeySize = 64;
constexpr size_t kIdSize = 36;

}  // namespace

std::string StateFolder() {
  const auto absolute = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);
    return value != nullptr && value[0] == '/' ? value : "";
  };
  std::string folder = absolute("XDG_STATE_HOME");
  const std::string home = absolute("HOME");
  if (folder.empty() && !home.empty()) folder = home + "/.local/state";
  return folder.empty() ? "" : folder + "/mnemon";
}

CallFiles::CallFiles(std::string folder, std::string server)
    : folder_(std::move(folder)), server_(std::move(server)) {}

// Includes the server, since sessions of different servers may have the same name.
std::string CallFiles::KeyOf(const std::string& session) const {
  return Sha256Hex(StrCat(server_, "\n", session));
}

std::string CallFiles::PathOf(const std::string& key) const {
  return StrCat(folder_, "/", key.substr(0, 2));
}

void CallFiles::Remember(const std::string& session,
                         const std::string& request_id) const {
  if (folder_.empty()) return;
  std::error_code error;
  if (std::filesystem::create_directories(folder_, error)) {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  }
  const std::string key = KeyOf(session);
  WriteFileDurably(PathOf(key), StrCat(key, " ", request_id, "\n")).IgnoreError();
}

std::string CallFiles::Recall(const std::string& session) const {
  if (folder_.empty()) return "";
  const std::string key = KeyOf(session);
  const auto text = ReadFile(PathOf(key), kKeySize + kIdSize + 2);
  if (!text.ok() || text->size() != kKeySize + kIdSize + 2) return "";
  return text->compare(0, kKeySize, key) == 0 ? text->substr(kKeySize + 1, kIdSize)
                                              : "";
}

}  // namespace mnemon::client
