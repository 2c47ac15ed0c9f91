// SPDX-License-Identifier: MIT
#include "base/files/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  std::string Write(const std::string& content) {
    const std::string path = root_ / "file";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  const fs::path root_ =
      fs::path(testing::TempDir()) / ("mapped_file_" + std::to_string(getpid()));
};

TEST_F(MappedFileTest, ShowsTheWholeFileFromAPageOn) {
  const std::string content = std::string(10000, 'x') + "end";
  const auto file = MappedFile::Open(Write(content));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->view(), content);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->view().data()) %
                static_cast<uintptr_t>(sysconf(_SC_PAGE_SIZE)),
            0u);
  ReadAhead(file->view().substr(5000, 3));
  ReadAhead("of any memory");
  EXPECT_EQ(file->view(), content);
}

TEST_F(MappedFileTest, StaysWhereItIsWhenItsOwnerMovesAndItsNameIsTaken) {
  auto opened = MappedFile::Open(Write("old"));
  ASSERT_TRUE(opened.ok());
  const std::string_view view = opened->view();
  const MappedFile file = *std::move(opened);
  fs::remove(root_ / "file");
  Write("new");
  EXPECT_EQ(file.view().data(), view.data());
  EXPECT_EQ(file.view(), "old");
}

TEST_F(MappedFileTest, EmptyFilesAndLinksAreFiles) {
  const auto empty = MappedFile::Open(Write(""));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->view(), "");
  Write("content");
  fs::create_symlink("file", root_ / "link");
  EXPECT_EQ(MappedFile::Open(root_ / "link")->view(), "content");
}

TEST_F(MappedFileTest, FaultsAreNamed) {
  EXPECT_EQ(MappedFile::Open(root_ / "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MappedFile::Open(root_).status().message()),
              HasSubstr("is a directory"));
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(MappedFile::Open(root_ / "pipe").status().message()),
              HasSubstr("not a regular file"));
  EXPECT_FALSE(MappedFile::Open("").ok());
}

}  // namespace
}  // namespace mnemon
