// SPDX-License-Identifier: MIT
#include "base/files/file_kind.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/files_of_kinds.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FileKind, IsToldByTheBeginning) {
  std::set<FileKind> found;
  for (const auto& [kind, begin] : FilesOfKinds()) {
    EXPECT_EQ(FindFileKind(begin), kind) << Describe(kind);
    // The rest of the file does not matter.
    EXPECT_EQ(FindFileKind(begin + std::string(100'000, '\x01')), kind)
        << Describe(kind);
    EXPECT_EQ(FindJsonKind(begin), std::nullopt);
    found.insert(kind);
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(FileKind::kTokenizerJson));
  found.clear();
  for (const auto& [kind, begin] : JsonOfKinds()) {
    EXPECT_EQ(FindFileKind(begin), std::nullopt) << Describe(kind);
    EXPECT_EQ(FindJsonKind(begin), kind) << Describe(kind);
    EXPECT_EQ(FindJsonKind(" \n" + begin), kind) << Describe(kind);
    found.insert(kind);
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(FileKind::kForeignConfig) -
                              static_cast<size_t>(FileKind::kTokenizerJson) + 1);
}

TEST(FileKind, OtherFilesAreOfNone) {
  const std::string cases[] = {
      "",
      "a",
      "\n",
      "Once upon a time",
      "{}",
      R"({"architecture": "llama", "d_model": 16, "heads": 2, "layers": 1})",
      R"({"version":"1.0","model":{"type":"Byte"}})",
      "version = 1",
      "<p>",
      "BZh is a word",
      "PK",
      std::string(5000, '\0'),
      std::string(5000, '\x80'),
      std::string(5000, '\n'),
      "{{ messages }}",
      "[data]\ntext = \"a.txt\"\n"};
  for (const std::string& begin : cases) {
    EXPECT_EQ(FindFileKind(begin), std::nullopt) << begin.substr(0, 40);
    EXPECT_EQ(FindJsonKind(begin), std::nullopt) << begin.substr(0, 40);
  }
  // No part of a file is read over.
  for (const auto& [kind, begin] : FilesOfKinds()) {
    for (size_t size = 0; size < begin.size(); ++size) {
      FindFileKind(begin.substr(0, size));
    }
  }
  for (const auto& [kind, begin] : JsonOfKinds()) {
    for (size_t size = 0; size < begin.size(); ++size) {
      FindJsonKind(begin.substr(0, size));
    }
  }
}

// 0x0280 bytes of header begin as pickles do.
TEST(FileKind, TheLengthOfAHeaderIsNoMagic) {
  for (const std::string length :
       {"\x80\x02", "\x0a\x0e", "\x1f\x8b", "\xff\xfe", "\x08\x07"}) {
    std::string begin = length + std::string(6, '\0') + "{\"w\":";
    EXPECT_EQ(FindFileKind(begin), FileKind::kSafetensors);
    begin[8] = 'x';
    // Text in UTF-16 begins with nothing more than this.
    const std::optional<FileKind> other = FindFileKind(begin);
    EXPECT_TRUE(!other || other == FileKind::kUtf16) << Describe(*other);
  }
}

TEST(FileKind, ErrorsAreOneLineWithTheFileAndWhatToDo) {
  const TemporaryDirectory tmp;
  for (const auto& [kind, begin] : FilesOfKinds()) {
    tmp.Put("some.file", begin);
    const std::string path = tmp.Path("some.file");
    const absl::Status status = CheckFileKind(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("some.file' is "), HasSubstr(Describe(kind)),
                      HasSubstr(": "), Not(HasSubstr("\n"))));
    EXPECT_TRUE(CheckFileKind(path, kind).ok());
    // A link is followed.
    std::filesystem::create_symlink(path, tmp.Path("link"));
    EXPECT_FALSE(CheckFileKind(tmp.Path("link")).ok());
    std::filesystem::remove(tmp.Path("link"));
  }
  EXPECT_TRUE(CheckFileKind(tmp.Path("absent")).ok());
  EXPECT_TRUE(CheckFileKind(tmp.path()).ok());
  tmp.Put("some.file", "");
  EXPECT_TRUE(CheckFileKind(tmp.Path("some.file")).ok());
}

TEST(FileKind, IsNamedWhereJsonOrASmallFileIsWanted) {
  const TemporaryDirectory tmp;
  for (const auto& [kind, begin] : FilesOfKinds()) {
    const std::string message(ParseJson(begin, "x.json").status().message());
    EXPECT_EQ(message, "x.json is " + Describe(kind));
    tmp.Put("large", begin + std::string(5000, ' '));
    const absl::Status large = ReadFile(tmp.Path("large"), 1000).status();
    EXPECT_EQ(large.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(large.message()), HasSubstr("; it is " + Describe(kind)));
  }
  tmp.Put("large", std::string(5000, ' '));
  EXPECT_THAT(std::string(ReadFile(tmp.Path("large"), 1000).status().message()),
              testing::EndsWith("at most 1000 are accepted"));
}

}  // namespace
}  // namespace mnemon
