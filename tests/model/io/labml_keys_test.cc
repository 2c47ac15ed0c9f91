// SPDX-License-Identifier: MIT
// docs/labml.md lists the keys that the importer takes, no more and no fewer, with the
// tensors that they become and their shapes.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/import_labml.h"

namespace mnemon {
namespace {

constexpr int64_t kMostBytes = 1 << 20;

struct Row {
  std::string key;
  std::string ours;  // empty: none
  std::vector<std::string> shapes;
  bool only_002;
};

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

// Section `### name` of the page: its rows, as they are written.
std::vector<Row> Rows(const std::string& page, const std::string& name) {
  const std::string title = StrCat("\n### ", name, "\n");
  const size_t begin = page.find(title);
  if (begin == page.npos) return {};
  std::istringstream lines(
      page.substr(begin + title.size(), page.find("\n### ", begin + 1) - begin));
  const std::regex row("\\| `(.*)` \\| (?:`(.*)`|none) \\| (.*?)(; form 002)? \\|"),
      shape("\\[[^\\]]*\\]");
  std::vector<Row> rows;
  for (std::string line; std::getline(lines, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    const std::string shapes = cells[3];
    rows.push_back(
        {cells[1],
         cells[2],
         {std::sregex_token_iterator(shapes.begin(), shapes.end(), shape), {}},
         cells[4].matched});
  }
  return rows;
}

// "[2P, H]" with the sizes of a model.
std::vector<int64_t> Sizes(const std::string& shape, const ModelConfig& config) {
  const std::map<std::string, int64_t> symbols = {
      {"1", 1},
      {"V", config.vocab},
      {"D", config.d_model},
      {"H", config.heads},
      {"K", config.head_width()},
      {"F", config.d_ff},
      {"L+1", config.layers + 1},
      {"P", config.positions},
      {"2P", 2 * config.positions},
  };
  std::vector<int64_t> sizes;
  const std::regex symbol("[^\\[\\], ]+");
  for (std::sregex_iterator at(shape.begin(), shape.end(), symbol), end; at != end;
       ++at) {
    sizes.push_back(symbols.at(at->str()));
  }
  return sizes;
}

class LabmlKeys : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(LabmlKeys, ThePageListsThem) {
  const auto [name, section] = GetParam();
  const auto golden = [&](const char* file) {
    return StrCat(MNEMON_SOURCE_DIR, "/tests/golden/data/", name, "/", file);
  };
  const auto foreign = Safetensors::Read(golden("weights.safetensors")).value();
  const auto imported =
      ImportLabml(ReadFile(golden("config.json"), kMostBytes).value(), foreign, false);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const ModelConfig& config = imported->config;
  const auto ours = Safetensors::FromBytes(imported->weights).value();
  const std::string page =
      ReadFile(StrCat(MNEMON_SOURCE_DIR, "/docs/labml.md"), kMostBytes).value();

  std::set<std::string> keys, tensors;
  const auto check = [&](const std::string& key, const std::string& tensor,
                         const std::vector<int64_t>& shape) {
    EXPECT_TRUE(keys.insert(key).second) << key << " twice";
    const TensorInfo* from = foreign.Find(key);
    ASSERT_NE(from, nullptr) << key;
    EXPECT_EQ(from->shape, shape) << key;
    if (tensor.empty()) return;
    EXPECT_TRUE(tensors.insert(tensor).second) << tensor << " twice";
    const TensorInfo* to = ours.Find(tensor);
    ASSERT_NE(to, nullptr) << tensor;
    EXPECT_EQ(to->shape, shape) << tensor;
    EXPECT_EQ(foreign.Bytes(*from), ours.Bytes(*to)) << key;
  };
  const std::string both = "{weight,bias}";
  for (const Row& row : Rows(page, section)) {
    if (row.only_002 && config.position_bias == PositionBias::kTied) continue;
    const bool layers = row.key.find("{i}") != row.key.npos;
    const bool pair = row.key.find(both) != row.key.npos;
    for (int64_t i = 0; i < (layers ? config.layers : 1); ++i) {
      for (const std::string part : {"weight", "bias"}) {
        if (!pair && part == "bias") continue;
        const auto name_of = [&](const std::string& text) {
          return Replaced(Replaced(text, "{i}", StrCat(i)), both, part);
        };
        check(name_of(row.key), name_of(row.ours),
              Sizes(part == "weight" ? row.shapes.front() : row.shapes.back(), config));
      }
    }
  }
  EXPECT_EQ(keys.size(), foreign.header().tensors.size());
  EXPECT_EQ(tensors.size(), ours.header().tensors.size());
}

INSTANTIATE_TEST_SUITE_P(All, LabmlKeys,
                         testing::Values(std::pair("feedback_000", "feedback"),
                                         std::pair("feedback_002", "feedback"),
                                         std::pair("feedback_kv", "feedback_kv"),
                                         std::pair("fast_weights_nu3", "fast_weights"),
                                         std::pair("xl_carry", "transformer_xl"),
                                         std::pair("transformer", "transformer"),
                                         std::pair("encoder", "encoder")),
                         [](const auto& info) {
                           return std::string(info.param.first);
                         });

}  // namespace
}  // namespace mnemon
