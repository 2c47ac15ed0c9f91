// SPDX-License-Identifier: MIT
// client/python/examples/read_snapshot.py, which was written from the description of
// the format, reads what EncodeSnapshot writes.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/child_process.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/snapshots/sample_snapshots.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

class ReadSnapshot : public testing::Test {
 protected:
  ReadSnapshot() { std::filesystem::create_directories(folder_); }
  ~ReadSnapshot() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<std::string> Run(std::string_view bytes) const {
    const std::string file = folder_ + "/snapshot";
    std::ofstream(file, std::ios::binary) << bytes;
    return RunToEnd(
        folder_,
        {MNEMON_PYTHON, "-B",
         MNEMON_SOURCE_DIR "/client/python/examples/read_snapshot.py", file},
        std::chrono::seconds(60));
  }

  const std::string folder_ =
      StrCat(testing::TempDir(), "read_snapshot.",
             std::chrono::steady_clock::now().time_since_epoch().count());
};

// What the program prints for `snapshot`.
std::string Printed(const Snapshot& snapshot) {
  std::string text = StrCat(
      "model_id: ", snapshot.model_id, "\nnumerics_id: ", snapshot.numerics_id,
      "\narchitecture: ", snapshot.architecture, "\nspec_hash: ", snapshot.spec_hash,
      "\nsession: ", snapshot.session, "\ntokens: ", snapshot.tokens.size(), ", ",
      snapshot.computed, " of them computed\n");
  for (const SnapshotEntry& entry : snapshot.entries) {
    std::vector<int64_t> held = entry.shape;
    if (entry.growth != Growth::kFixed) held.insert(held.begin(), entry.rows);
    text += StrCat(entry.name, ": ", Name(entry.growth), " [", StrJoin(held, ", "),
                   "] from row ", entry.first_row, "\n");
  }
  const std::string_view state(reinterpret_cast<const char*>(snapshot.state.data()),
                               snapshot.state.size() * sizeof(float));
  return text +
         StrCat("state: ", state.size(), " bytes, sha256 ", Sha256Hex(state), "\n");
}

TEST_F(ReadSnapshot, PrintsWhatWasEncoded) {
  Snapshot zeros = FixedSnapshot(300'000, 300'000);
  std::fill(zeros.state.begin(), zeros.state.end(), 0.0f);
  for (const Snapshot& snapshot :
       {FixedSnapshot(12, 0), FixedSnapshot(300'000, 600'000), zeros,
        GrowingSnapshot(Growth::kRing, 16, 40, 30),
        GrowingSnapshot(Growth::kAppend, 4096, 3000, 2999)}) {
    const auto text = Run(*EncodeSnapshot(snapshot));
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, Printed(snapshot));
  }
}

TEST_F(ReadSnapshot, RefusesWhatIsDamaged) {
  std::string bytes = *EncodeSnapshot(FixedSnapshot(3, 5));
  bytes.back() ^= 1;
  EXPECT_THAT(Run(bytes).status().message(), HasSubstr("checksum of block 1"));
  bytes[100] ^= 1;
  EXPECT_THAT(Run(bytes).status().message(), HasSubstr("checksum of the header"));
}

}  // namespace
}  // namespace mnemon
