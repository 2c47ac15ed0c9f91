// SPDX-License-Identifier: MIT
#include "model/io/safetensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/heap_peak.h"
#include "tests/model/io/safetensors_image.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Entry(std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return StrCat("{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                ",\"data_offsets\":", offsets, "}");
}

std::string One(std::string_view dtype, std::string_view shape,
                std::string_view offsets) {
  return StrCat("{\"w\":", Entry(dtype, shape, offsets), "}");
}

std::string Two(std::string_view first, std::string_view second) {
  return StrCat("{\"a\":", Entry("U8", "[4]", first),
                ",\"b\":", Entry("U8", "[4]", second), "}");
}

std::string Nested(int depth) {
  std::string text = "{\"w\":";
  for (int i = 0; i < depth; ++i) text += "{\"w\":";
  return text;
}

struct Rule {
  std::string name;
  std::string image;
  std::string fault;  // part of the message; empty = accepted
};

std::vector<Rule> Rules() {
  const std::string w = One("F32", "[2]", "[0,8]");
  const std::string eight(8, '\0');
  const std::string metadata = ",\"w\":" + Entry("F32", "[2]", "[0,8]") + "}";
  return {
      {"good", Image(w, eight), ""},
      {"empty_file", "", "0 bytes is too short"},
      {"seven_bytes", std::string(7, '\0'), "7 bytes is too short"},
      {"length_2_63", ImageWithLength(uint64_t{1} << 63, w), "9223372036854775808"},
      {"length_2_64", ImageWithLength(~uint64_t{0}, w), "18446744073709551615"},
      {"length_beyond_file", ImageWithLength(w.size() + 1, w), "exceeds the file"},
      {"length_above_limit", ImageWithLength(100'000'001, w), "exceeds 100000000"},
      {"length_0", Image(""), "header length is 0"},
      {"length_big_endian", ImageWithLength(__builtin_bswap64(w.size()), w), "exceeds"},
      {"not_utf8", Image("{\"\xff\":1}"), "UTF-8"},
      {"not_json", Image("{what}"), "not valid JSON"},
      {"not_an_object", Image("[]"), "does not start with '{'"},
      {"leading_space", Image(" " + w, eight), "does not start with '{'"},
      {"trailing_spaces", Image(w + "     ", eight), ""},
      {"trailing_garbage", Image(w + "{}", eight), "not valid JSON"},
      {"raw_nul_in_name", Image(std::string("{\"a\0b\":1}", 9)), "NUL at byte 3"},
      {"nul_after_header", Image(w + std::string("\0\0", 2), eight), "NUL"},
      {"escaped_nul_in_name",
       Image("{\"a\\u0000b\":" + Entry("U8", "[0]", "[0,0]") + "}"),
       "NUL in name 'a\\x00b'"},
      {"deep_objects", Image(Nested(10'000)), "'w'"},
      {"deep_arrays", Image("{\"w\":{\"shape\":" + std::string(10'000, '[')), "'w'"},
      {"deep_in_root", Image("{\"w\":" + std::string(1'000'000, '[')), "'w'"},
      {"duplicate_name",
       Image("{\"a\":" + Entry("U8", "[0]", "[0,0]") +
             ",\"a\":" + Entry("U8", "[0]", "[0,0]") + "}"),
       "tensor 'a': duplicate name"},
      {"duplicate_name_escaped",
       Image("{\"a\":" + Entry("U8", "[0]", "[0,0]") +
             ",\"\\u0061\":" + Entry("U8", "[0]", "[0,0]") + "}"),
       "tensor 'a': duplicate name"},
      {"duplicate_dtype",
       Image("{\"w\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],"
             "\"data_offsets\":[0,0]}}"),
       "'w': duplicate key 'dtype'"},
      {"duplicate_offsets",
       Image("{\"w\":{\"dtype\":\"U8\",\"data_offsets\":[0,0],\"shape\":[0],"
             "\"data_offsets\":[0,0]}}"),
       "'w': duplicate key 'data_offsets'"},
      {"unknown_key",
       Image("{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1}}"),
       "'w': unknown key 'x'"},
      {"missing_dtype", Image("{\"w\":{\"shape\":[0],\"data_offsets\":[0,0]}}"),
       "'w': missing key dtype"},
      {"missing_shape", Image("{\"w\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}"),
       "'w': missing key shape"},
      {"missing_offsets", Image("{\"w\":{\"dtype\":\"U8\",\"shape\":[0]}}"),
       "'w': missing key data_offsets"},
      {"entry_is_number", Image("{\"w\":1}"), "'w' must be an object"},
      {"entry_is_null", Image("{\"w\":null}"), "'w' must be an object"},
      {"dtype_is_number",
       Image("{\"w\":{\"dtype\":1,\"shape\":[0],\"data_offsets\":[0,0]}}"), "'w'"},
      {"shape_is_string",
       Image("{\"w\":{\"dtype\":\"U8\",\"shape\":\"0\",\"data_offsets\":[0,0]}}"),
       "'w'"},
      {"metadata", Image("{\"__metadata__\":{\"format\":\"pt\"}" + metadata, eight),
       ""},
      {"metadata_number", Image("{\"__metadata__\":{\"n\":1}" + metadata, eight),
       "__metadata__ entry 'n' must be a string"},
      {"metadata_object", Image("{\"__metadata__\":{\"n\":{}}" + metadata, eight),
       "__metadata__ entry 'n' must be a string"},
      {"metadata_is_string", Image("{\"__metadata__\":\"x\"" + metadata, eight),
       "__metadata__"},
      {"metadata_is_list", Image("{\"__metadata__\":[]" + metadata, eight),
       "__metadata__"},
      {"metadata_twice",
       Image("{\"__metadata__\":{},\"__metadata__\":{}" + metadata, eight),
       "duplicate key '__metadata__'"},
      {"metadata_key_twice",
       Image("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}" + metadata, eight),
       "duplicate key 'k' in __metadata__"},
      {"metadata_huge",
       Image("{\"__metadata__\":{\"k\":\"" + std::string(50'000'000, 'x') + "\"}" +
                 metadata,
             eight),
       "__metadata__ exceeds"},
      {"unknown_dtype", Image(One("F31", "[2]", "[0,8]"), eight),
       "'w': unknown dtype 'F31'"},
      {"lower_case_dtype", Image(One("f32", "[2]", "[0,8]"), eight), "unknown dtype"},
      {"shape_negative", Image(One("F32", "[-2]", "[0,8]"), eight), "'w': shape"},
      {"shape_float", Image(One("F32", "[2.0]", "[0,8]"), eight), "'w': shape"},
      {"shape_exponent", Image(One("F32", "[1e3]", "[0,8]"), eight), "'w': shape"},
      {"shape_2_63", Image(One("F32", "[9223372036854775808]", "[0,8]"), eight),
       "'w': shape"},
      {"shape_2_64", Image(One("F32", "[18446744073709551616]", "[0,8]"), eight),
       "'w': shape"},
      {"shape_boolean", Image(One("F32", "[true]", "[0,8]"), eight), "'w': shape"},
      {"shape_nested", Image(One("F32", "[[2]]", "[0,8]"), eight), "'w': shape"},
      {"shape_rank",
       Image(One(
                 "F32",
                 "[2" +
                     [] {
                       std::string ones;
                       for (int i = 0; i < 64; ++i) ones += ",1";
                       return ones;
                     }() +
                     "]",
                 "[0,8]"),
             eight),
       "'w': more than 64 dimensions"},
      {"product_overflows",
       Image(One("F32", "[4294967296,4294967296]", "[0,8]"), eight),
       "'w': F32 [4294967296, 4294967296]: size overflows"},
      {"product_wraps_to_right_size",
       Image(One("U8", "[4294967296,4294967296,8]", "[0,8]"), eight), "size overflows"},
      {"bits_overflow", Image(One("F64", "[2305843009213693952]", "[0,8]"), eight),
       "size overflows"},
      {"zero_size", Image(One("F32", "[0]", "[0,0]")), ""},
      {"zero_size_amid", Image(One("F32", "[3,0,2]", "[0,0]")), ""},
      {"zero_rank", Image(One("F32", "[]", "[0,4]"), "abcd"), ""},
      {"no_tensors", Image("{}"), ""},
      {"offsets_reversed", Image(One("F32", "[2]", "[8,0]"), eight),
       "'w': data_offsets are reversed"},
      {"offsets_one", Image(One("F32", "[2]", "[0]"), eight), "'w': data_offsets"},
      {"offsets_three", Image(One("F32", "[2]", "[0,8,8]"), eight),
       "'w': data_offsets"},
      {"offsets_negative", Image(One("F32", "[2]", "[-8,0]"), eight),
       "'w': data_offsets"},
      {"offsets_2_64", Image(One("F32", "[2]", "[0,18446744073709551616]"), eight),
       "'w': data_offsets"},
      {"overlap", Image(Two("[0,4]", "[2,6]"), "abcdef"), "'b': data begins at 2"},
      {"same_data", Image(Two("[0,4]", "[0,4]"), "abcd"), ": overlap"},
      {"hole", Image(Two("[0,4]", "[5,9]"), "abcdefghi"), "'b': data begins at 5"},
      {"hole_at_start", Image(Two("[1,5]", "[5,9]"), "abcdefghi"),
       "'a': data begins at 1"},
      {"order_of_data", Image(Two("[4,8]", "[0,4]"), "abcdefgh"), ""},
      {"past_the_end", Image(One("F32", "[2]", "[0,8]"), "abcd"),
       "'w': data ends at 8, past the end of the file's 4 bytes"},
      {"past_the_end_far",
       Image(One("F32", "[2]",
                 "[9223372036854775799,"
                 "9223372036854775807]"),
             eight),
       "'w': data ends at 9223372036854775807"},
      {"trailing_bytes", Image(w, eight + "x"), "1 trailing bytes"},
      {"data_without_tensor", Image("{}", "x"), "1 trailing bytes"},
      {"span_too_long", Image(One("F32", "[1]", "[0,8]"), eight),
       "'w': F32 [1] needs 4 bytes, data_offsets span 8"},
      {"span_too_short", Image(One("F32", "[3]", "[0,8]"), eight),
       "'w': F32 [3] needs 12"},
      {"sub_byte_aligned", Image(One("F4", "[2,2]", "[0,2]"), "ab"), ""},
      {"sub_byte_misaligned", Image(One("F4", "[3]", "[0,2]"), "ab"),
       "'w': F4 [3] does not end on a byte"},
      {"six_bits_misaligned", Image(One("F6_E2M3", "[3]", "[0,3]"), "abc"),
       "does not end on a byte"},
      {"forged_line", Image("{\"a\\nERROR b\":1}"), "'a\\x0aERROR b'"},
  };
}

class SafetensorsRules : public testing::TestWithParam<Rule> {};

TEST_P(SafetensorsRules, IsAcceptedOrNamesTheFault) {
  const Rule& rule = GetParam();
  const auto parsed = ParseSafetensors(rule.image);
  if (rule.fault.empty()) {
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return;
  }
  ASSERT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(parsed.status().message());
  EXPECT_THAT(message, HasSubstr(rule.fault));
  EXPECT_LT(message.size(), 500u);
}

INSTANTIATE_TEST_SUITE_P(All, SafetensorsRules, testing::ValuesIn(Rules()),
                         [](const auto& info) { return info.param.name; });

// A line of /proc/self/status.
int64_t StatusKilobytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (int64_t value; word == name + ":" && status >> value) return value;
  }
  ADD_FAILURE() << "/proc/self/status has no " << name;
  return 0;
}

// What resident memory grows by at most while `call` runs, whatever it was before.
int64_t GrowthKilobytes(const std::function<void()>& call) {
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins again
  const int64_t before = StatusKilobytes("VmRSS");
  EXPECT_LT(StatusKilobytes("VmHWM"), before + 1024);
  call();
  return StatusKilobytes("VmHWM") - before;
}

TEST(Safetensors, TinyTensorsTakeBoundedMemory) {
  constexpr int kCount = 200'000;
  std::string header = "{";
  for (int i = 0; i < kCount; ++i) {
    header += StrCat(i == 0 ? "" : ",", "\"t", i,
                     "\":", Entry("U8", "[1]", StrCat("[", i, ",", i + 1, "]")));
  }
  const std::string image = Image(header + "}", std::string(kCount, 'x'));
  // Read once before: what a sanitizer keeps about the image is not the parser's.
  ASSERT_EQ(std::count(image.begin(), image.end(), '{'), kCount + 1);
  absl::StatusOr<SafetensorsHeader> parsed;
  StartHeapPeak();
  const int64_t growth = GrowthKilobytes([&] { parsed = ParseSafetensors(image); });
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->tensors.size(), static_cast<size_t>(kCount));
  EXPECT_LT(HeapPeak(), 40 << 20);
  EXPECT_LT(growth, 120 * 1024);
}

TEST(Safetensors, DeclaredSizesAllocateNothing) {
  const std::string huge = One("U8", "[1000000000000]", "[0,1000000000000]");
  const int64_t growth = GrowthKilobytes(
      [&] { EXPECT_FALSE(ParseSafetensors(Image(huge, "abcd")).ok()); });
  EXPECT_LT(growth, 16 * 1024);
}

std::string BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(Safetensors, WritesWhatItReads) {
  const std::string floats = BytesOf({1.5f, -2.0f});
  const int64_t number = -7;
  const std::string ints(reinterpret_cast<const char*>(&number), sizeof(number));
  const std::vector<TensorToWrite> tensors = {
      {"\"q\" \xc3\xa9", DType::kF32, {2}, floats},
      {"empty", DType::kF16, {0, 3}, ""},
      {"n", DType::kI64, {}, ints}};
  const auto image = FormatSafetensors(tensors, {{"format", "pt"}});
  ASSERT_TRUE(image.ok()) << image.status();
  const auto file = Safetensors::FromBytes(*image);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->header().metadata, ElementsAre(std::pair("format", "pt")));
  EXPECT_EQ(file->header().tensors[0].begin % 8, 0);
  const TensorInfo* q = file->Find("\"q\" \xc3\xa9");
  ASSERT_NE(q, nullptr);
  EXPECT_THAT(file->Floats(*q).value(), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(file->Ints(*file->Find("n")).value(), ElementsAre(-7));
  EXPECT_FALSE(file->Ints(*q).ok());
  EXPECT_EQ(file->Find("absent"), nullptr);
  EXPECT_EQ(file->Find("empty")->elements(), 0);
}

TEST(Safetensors, WriterKeepsTheRules) {
  const std::string four(4, '\0');
  const auto format = [](std::vector<TensorToWrite> tensors) {
    return FormatSafetensors(tensors).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(format({{"a", DType::kF32, {2}, four}}), kInvalid);
  EXPECT_EQ(format({{"a", DType::kF32, {-1}, four}}), kInvalid);
  EXPECT_EQ(format({{"a", DType::kF32, {1}, four}, {"a", DType::kF32, {1}, four}}),
            kInvalid);
  EXPECT_EQ(format({{"\xff", DType::kF32, {1}, four}}), kInvalid);
  EXPECT_EQ(format({{"__metadata__", DType::kF32, {1}, four}}), kInvalid);
}

TEST(Safetensors, ReadErrorsNameTheFile) {
  const TemporaryDirectory directory;
  const std::string& dir = directory.path();
  const auto error = [](const std::string& path) {
    return std::string(Safetensors::Read(path).status().message());
  };
  std::ofstream(dir + "/bad.safetensors") << "short";
  EXPECT_THAT(error(dir + "/bad.safetensors"),
              testing::AllOf(HasSubstr("bad.safetensors"), HasSubstr("too short")));
  EXPECT_THAT(error(dir + "/absent.safetensors"), HasSubstr("absent.safetensors"));
  for (const char* name :
       {"model.pt", "a.pth", "pytorch_model.bin", "x.ckpt", "x.pkl"}) {
    EXPECT_THAT(error(dir + "/" + name), HasSubstr("pickle")) << name;
  }
}

TEST(Safetensors, SparseFileBeyondMemoryIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.Path("sparse.safetensors");
  std::ofstream(path) << "x";
  ASSERT_EQ(::truncate(path.c_str(), int64_t{1} << 42), 0);
  const int64_t growth = GrowthKilobytes([&] {
    EXPECT_EQ(Safetensors::Read(path).status().code(), absl::StatusCode::kOutOfRange);
  });
  EXPECT_LT(growth, 16 * 1024);
}

// Damaged files are refused or read within their bounds, whatever the damage.
TEST(Safetensors, EveryShorterFileIsRefused) {
  const std::string data(8, 'x');
  const TensorToWrite tensor = {"w", DType::kF32, {2}, data};
  const std::string good = FormatSafetensors({&tensor, 1}).value();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(
        Safetensors::FromBytes(std::string_view(good).substr(0, size)).status().code(),
        absl::StatusCode::kInvalidArgument)
        << size;
  }
}

TEST(Safetensors, MutationsAreHarmless) {
  const std::string floats(64, '\1');
  const std::vector<TensorToWrite> tensors = {
      {"first", DType::kF32, {4, 2}, {floats.data(), 32}},
      {"second", DType::kU8, {32}, {floats.data(), 32}}};
  const std::string good = FormatSafetensors(tensors, {{"k", "v"}}).value();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(ParseSafetensors(std::string_view(good).substr(0, length)).ok());
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good;
    const size_t flips = 1 + random() % 3;
    for (size_t i = 0; i < flips; ++i) {
      bad[random() % (good.size() - 64)] = static_cast<char>(random());
    }
    const auto file = Safetensors::FromBytes(bad);
    if (!file.ok()) continue;
    for (const TensorInfo& tensor : file->header().tensors) {
      ASSERT_EQ(static_cast<int64_t>(file->Bytes(tensor).size()),
                tensor.end - tensor.begin);
    }
  }
}

}  // namespace
}  // namespace mnemon
