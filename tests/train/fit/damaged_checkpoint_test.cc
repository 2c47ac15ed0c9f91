// SPDX-License-Identifier: MIT
// Damaged files of a checkpoint, read as the server, the tools and a resumed run read
// them: each is refused by name, soon, and without much memory. After a manifest that
// matches the damage the parsers see it, and it may also be harmless.
//
// MNEMON_TEST_FLIPS: damages per file, 100 unless set.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/checkpoint.h"
#include "model/load/load.h"
#include "model/load/quantise.h"
#include "model/sequence/load.h"
#include "nlohmann/json.hpp"
#include "tests/model/io/temporary_directory.h"
#include "train/fit/fit.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;

constexpr double kMostSeconds = 1;
constexpr int64_t kMostKilobytes = 300 * 1024;
constexpr char kManifestName[] = "manifest.json";

int Flips() {
  const char* given = std::getenv("MNEMON_TEST_FLIPS");
  return given == nullptr ? 100 : std::atoi(given);
}

// Processor time of all threads: other work on the machine does not count.
double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int64_t PeakResidentKilobytes() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class DamagedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 90; ++i) text += StrCat("the cat ", i % 7, "\n");
    tmp_.Put("text.txt", text);
    const absl::Status trained = Fit(/*resume=*/false);
    ASSERT_TRUE(trained.ok()) << trained;
    Use(tmp_.Path("run/" + fs::read_symlink(tmp_.Path("run/last")).string()));
    fs::copy(tmp_.Path("run"), tmp_.Path("whole"), kCopy);
  }

  // Damages that checkpoint from now on.
  void Use(const std::string& checkpoint) {
    checkpoint_ = checkpoint;
    files_.clear();
    for (const auto& entry : fs::recursive_directory_iterator(checkpoint_)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), checkpoint_);
      files_[name] = tmp_.Get(fs::relative(entry.path(), tmp_.path()));
    }
  }

  absl::Status Fit(bool resume) const {
    TrainConfig config;
    config.model = {.architecture = "fast_weights"};
    config.model.d_model = 8;
    config.model.heads = 2;
    config.model.layers = 1;
    config.model.d_ff = 16;
    config.data.text = tmp_.Path("text.txt");
    config.data.loader = LoaderKind::kSequential;  // a carry is saved
    config.data.seq_len = 8;
    config.data.batch = 2;
    config.duration = {.steps = 2};
    config.validation_batches = 1;
    config.sample.tokens = 0;
    config.out = tmp_.Path("run");
    testing::internal::CaptureStdout();
    const absl::Status status =
        mnemon::Fit({.config = config, .resume = resume, .threads = 1});
    testing::internal::GetCapturedStdout();
    return status;
  }

  // Puts `content` for the file `name`, and with `matching` a manifest that says so.
  void Damage(const std::string& name, const std::string& content, bool matching) {
    Write(name, content);
    if (!matching) return;
    auto manifest = nlohmann::json::parse(files_.at(kManifestName));
    manifest["files"][name]["sha256"] = Sha256Hex(content);
    manifest["files"][name]["bytes"] = content.size();
    Write(kManifestName, manifest.dump());
  }
  void Mend(const std::string& name) {
    Write(name, files_.at(name));
    Write(kManifestName, files_.at(kManifestName));
    if (!resumed_) return;
    // It may have gone on, and written.
    fs::remove_all(tmp_.Path("run"));
    fs::copy(tmp_.Path("whole"), tmp_.Path("run"), kCopy);
    resumed_ = false;
  }
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(checkpoint_ + "/" + name, std::ios::binary) << content;
  }

  void Check(const std::string& name, const std::string& what, bool matching) {
    SCOPED_TRACE(StrCat(name, ": ", what, matching ? ", manifest matches" : ""));
    std::vector<std::function<absl::Status()>> ways;
    if (name.rfind("training/", 0) != 0) {
      ways.push_back([&] { return LoadServedModel(checkpoint_, {}).status(); });
      ways.push_back([&] { return LoadCheckpoint(checkpoint_).status(); });
    }
    if (checkpoint_.starts_with(tmp_.Path("run/"))) {
      ways.push_back([&] {
        const absl::Status status = Fit(true);
        resumed_ = status.ok();
        return status;
      });
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      const double begin = ProcessorSeconds();
      const absl::Status status = ways[i]();
      EXPECT_LT(ProcessorSeconds() - begin, kMostSeconds) << i;
      if (!matching && name != kManifestName) {
        EXPECT_FALSE(status.ok()) << i;
      }
      if (status.ok()) continue;
      // state.json says how long metrics.csv is.
      EXPECT_THAT(std::string(status.message()),
                  AnyOf(HasSubstr(fs::path(name).filename().string()),
                        HasSubstr(checkpoint_), HasSubstr("this run began with"),
                        HasSubstr("the checkpoint was made with")))
          << i;
    }
  }

  // Damages every file in many ways.
  void CheckAll();

  static constexpr fs::copy_options kCopy =
      fs::copy_options::recursive | fs::copy_options::copy_symlinks;

  TemporaryDirectory tmp_;
  std::string checkpoint_;
  std::map<std::string, std::string> files_;
  bool resumed_ = false;
};

void DamagedCheckpoint::CheckAll() {
  const int64_t before = PeakResidentKilobytes();
  std::mt19937_64 random(20);
  for (const auto& [name, good] : files_) {
    for (int i = 0; i < Flips(); ++i) {
      std::string bad = good;
      std::string what;
      if (i % 10 == 9) {
        bad.resize(random() % good.size());
        what = StrCat("cut to ", bad.size(), " bytes");
      } else {
        const size_t at = random() % good.size();
        const int bit = static_cast<int>(random() % 8);
        bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
        what = StrCat("bit ", bit, " of byte ", at);
      }
      for (const bool matching : {false, true}) {
        if (matching && name == kManifestName) continue;
        Damage(name, bad, matching);
        Check(name, what, matching);
        Mend(name);
      }
    }
  }
  EXPECT_LT(PeakResidentKilobytes() - before, kMostKilobytes);
}

TEST_F(DamagedCheckpoint, IsRefusedByNameSoonAndWithLittleMemory) {
  Check(kManifestName, "whole", false);
  Mend(kManifestName);
  ASSERT_EQ(files_.size(), 8u) << "all files of a resumable checkpoint";
  CheckAll();
}

TEST_F(DamagedCheckpoint, IsRefusedLikewiseWhereItsWeightsAreInt8) {
  const auto made = QuantiseCheckpoint(checkpoint_);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(WriteCheckpoint(tmp_.Path("int8"), made->content, made->source).ok());
  Use(tmp_.Path("int8"));
  ASSERT_TRUE(LoadServedModel(checkpoint_, {}).ok());
  ASSERT_EQ(files_.size(), 4u) << "all files that serve";
  CheckAll();
}

}  // namespace
}  // namespace mnemon
