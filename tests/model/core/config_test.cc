// SPDX-License-Identifier: MIT
#include "model/families/config.h"

#include <cmath>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLeast[] = R"({"architecture": "causal", "d_model": 8, "heads": 2,
                              "layers": 1, "d_ff": 16, "vocab": 11})";

ModelConfig Good() { return *ParseConfig(kLeast); }

// kLeast with one key set to a JSON text.
std::string With(const std::string& key, const std::string& value) {
  std::string text = kLeast;
  const size_t at = text.find("\"" + key + "\"");
  if (at == std::string::npos) {
    return text.substr(0, text.rfind('}')) + ", \"" + key + "\": " + value + "}";
  }
  const size_t colon = text.find(':', at);
  const size_t end = text.find_first_of(",}", colon);
  return text.substr(0, colon + 1) + value + text.substr(end);
}

TEST(ParseConfig, FillsInDefaults) {
  const ModelConfig config = Good();
  EXPECT_EQ(config.architecture, "causal");
  EXPECT_EQ(config.head_width(), 4);
  EXPECT_EQ(config.positions, 4096);
  EXPECT_EQ(config.window, Window::kSliding);
  EXPECT_EQ(config.update_rule, UpdateRule::kDelta);
}

TEST(ParseConfig, EveryFieldSurvivesARoundTrip) {
  ModelConfig config = Good();
  config.positions = 77;
  config.position_kind = PositionKind::kRelative;
  config.window = Window::kSegment;
  config.mem_len = 5;
  config.nu = 3;
  config.feature_map = FeatureMapKind::kElu;
  config.update_rule = UpdateRule::kSum;
  config.normalise = Normalise::kZ;
  config.projection = Projection::kShared;
  config.position_bias = PositionBias::kTied;
  config.embed_scale = config.tie_head = config.gated = config.norm_logits = true;
  config.activation = Activation::kGelu;
  config.mask = Mask::kCausal;
  config.dropout = 0.1;
  const auto again = ParseConfig(ConfigToJson(config));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, config);
  EXPECT_FALSE(*again == Good());
}

TEST(ParseConfig, OneErrorListsEveryFault) {
  const auto config = ParseConfig(
      R"({"architecture": 3, "d_model": "8", "heads": 2.5, "layers": 1, "d_ff": 0,
          "colour": 1, "window": "round", "gated": 1, "dropout": true})");
  const std::string text(config.status().message());
  for (const char* fault :
       {"architecture must be a string", "d_model", "heads", "missing key vocab",
        "unknown key 'colour'", "window must be one of segment, sliding",
        "gated must be true or false", "dropout must be a number"}) {
    EXPECT_THAT(text, HasSubstr(fault));
  }
}

TEST(ParseConfig, AFileOfAnotherProgramIsNotListed) {
  const auto config = ParseConfig(
      R"({"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": {}})");
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(config.status().message(),
            "config: no configuration of mnemon: it names no architecture, and most of "
            "its keys are others, as 'n_layer'");
  // One key more or less is a mistake.
  EXPECT_THAT(std::string(ParseConfig(R"({"d_model": 8, "heads": 2, "n_layer": 1})")
                              .status()
                              .message()),
              testing::AllOf(HasSubstr("missing key architecture"),
                             HasSubstr("unknown key 'n_layer'")));
}

TEST(ParseConfig, RefusesBadValues) {
  const std::pair<const char*, const char*> cases[] = {
      {"d_model", "0"},
      {"d_model", "-8"},
      {"d_model", "8.0"},
      {"d_model", "1e3"},
      {"d_model", "9223372036854775808"},
      {"d_model", "18446744073709551616"},
      {"d_model", "null"},
      {"heads", "0"},
      {"heads", "3"},  // does not divide 8
      {"layers", "2147483648"},
      {"vocab", "0"},
      {"vocab", "2147483648"},
      {"d_ff", "[1]"},
      {"positions", "0"},
      {"mem_len", "-1"},
      {"nu", "0"},
      {"dropout", "1"},
      {"dropout", "-0.5"},
      {"architecture", "\"\""},
      {"position_kind", "\"Sinusoidal\""},
      {"position_kind", "1"},
      {"format_version", "0"},
  };
  for (const auto& [key, value] : cases) {
    const auto config = ParseConfig(With(key, value));
    ASSERT_FALSE(config.ok()) << key << " " << value;
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(key));
  }
}

TEST(ParseConfig, RefusesWhatIsNoConfig) {
  for (const char* text : {"", "[]", "3", "{", "null", "{\"vocab\":1,\"vocab\":1}"}) {
    EXPECT_EQ(ParseConfig(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(ParseConfig, ANewerFormatNamesBothVersions) {
  const auto config = ParseConfig(With("format_version", "7"));
  EXPECT_EQ(config.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("7"));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("up to 1"));
}

TEST(ParseConfig, HostileTextDoesNotFloodTheMessage) {
  const std::string huge(1 << 20, 'x');
  const auto key = ParseConfig(With(huge, "1"));
  EXPECT_LT(key.status().message().size(), 500u);
  const auto value = ParseConfig(With("d_ff", "\"" + huge + "\""));
  EXPECT_LT(value.status().message().size(), 500u);
  EXPECT_THAT(std::string(ParseConfig(With("a\\nb", "1")).status().message()),
              Not(HasSubstr("\n")));
}

TEST(DescribeModel, RefusesAbsurdTotalsWithoutOverflow) {
  ModelConfig config = Good();
  config.d_model = 65536;
  config.layers = 1024;
  config.d_ff = 1 << 20;
  config.vocab = (1 << 24) - 1;
  config.positions = 1 << 24;
  EXPECT_THAT(std::string(DescribeModel(config).status().message()), HasSubstr("2^40"));
  config = Good();
  config.architecture = "fast_weights";
  config.d_model = 65536;
  config.nu = 1024;
  config.layers = 64;
  EXPECT_THAT(std::string(DescribeModel(config).status().message()), HasSubstr("2^40"));
  // GPT-2 XL's sizes are fine.
  config = Good();
  config.d_model = 1600;
  config.heads = 25;
  config.layers = 48;
  config.d_ff = 6400;
  config.vocab = 50257;
  EXPECT_TRUE(DescribeModel(config).ok()) << DescribeModel(config).status();
}

TEST(ValidateConfig, WeightsOfAllTokensAddUpIn64Bits) {
  ModelConfig config = Good();
  config.vocab = (1 << 24) - 1;
  EXPECT_TRUE(ValidateConfig(config).ok());
  config.vocab = 1 << 24;
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("vocab"));
}

TEST(ValidateConfig, NotANumberIsNoDropout) {
  ModelConfig config = Good();
  config.dropout = NAN;
  EXPECT_FALSE(ValidateConfig(config).ok());
}

TEST(SetConfigField, TakesTextForEveryKind) {
  ModelConfig config = Good();
  EXPECT_TRUE(SetConfigField(config, "d_model", "64").ok());
  EXPECT_TRUE(SetConfigField(config, "gated", "true").ok());
  EXPECT_TRUE(SetConfigField(config, "activation", "gelu").ok());
  EXPECT_TRUE(SetConfigField(config, "dropout", "0.25").ok());
  EXPECT_TRUE(SetConfigField(config, "architecture", "feedback").ok());
  EXPECT_EQ(config.d_model, 64);
  EXPECT_TRUE(config.gated);
  EXPECT_EQ(config.activation, Activation::kGelu);
  EXPECT_EQ(config.dropout, 0.25);
  EXPECT_EQ(config.architecture, "feedback");
}

TEST(SetConfigField, NamesKeyAndWhatItTakes) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"d_modle", "64", "unknown key"},
      {"d_model", "6x", "an integer"},
      {"d_model", "", "an integer"},
      {"d_model", " 6", "an integer"},
      {"gated", "yes", "true or false"},
      {"dropout", "much", "a number"},
      {"activation", "softplus", "relu, gelu"},
      {"d_model", "99999999999999999999", "integer"},
  };
  for (const auto& [key, value, wanted] : cases) {
    ModelConfig config = Good();
    const absl::Status status = SetConfigField(config, key, value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key;
    EXPECT_THAT(std::string(status.message()), HasSubstr(key));
    EXPECT_THAT(std::string(status.message()), HasSubstr(wanted));
    EXPECT_EQ(GetErrorDetail(status)->field, key);
    EXPECT_EQ(config, Good());
  }
}

}  // namespace
}  // namespace mnemon
