// SPDX-License-Identifier: MIT
#include "tests/fakes/files_of_kinds.h"

#include <string_view>

#include "base/strings.h"

namespace mnemon {
namespace {

template <size_t kSize>
std::string Bytes(const char (&text)[kSize]) {
  return std::string(text, kSize - 1);
}

// The first file of an archive, stored.
std::string Zip(const std::string& name, const std::string& content) {
  return Bytes("PK\x03\x04\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x12\x34\x56\x78") +
         Bytes("\x08\x00\x00\x00\x08\x00\x00\x00") + static_cast<char>(name.size()) +
         Bytes("\x00\x00\x00") + name + content;
}

std::string Tar() {
  std::string block(512, '\0');
  block.replace(0, 10, "model/a.pt");
  block.replace(257, 8,
                Bytes("ustar\x00"
                      "00"));
  return block;
}

}  // namespace

std::vector<KindAndBeginning> FilesOfKinds() {
  return {
      {FileKind::kSafetensors,
       Bytes("\x40\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"format\":\"pt\"},")},
      {FileKind::kGguf, Bytes("GGUF\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")},
      {FileKind::kTokenFile, Bytes("\x93MNTOK\r\n\x01\x00\x00\x00\x01\x00\x00\x00")},
      {FileKind::kGgml, Bytes("lmgg\x00\x7d\x00\x00\x00\x10\x00\x00")},
      {FileKind::kGgml, Bytes("fmgg\x01\x00\x00\x00\x00\x7d\x00\x00")},
      {FileKind::kGgml, Bytes("tjgg\x03\x00\x00\x00\x00\x7d\x00\x00")},
      {FileKind::kGgml, Bytes("algg\x01\x00\x00\x00\x00\x7d\x00\x00")},
      // torch.save of 1.6 and later, and of before.
      {FileKind::kPyTorch, Zip("archive/data.pkl", Bytes("\x80\x02}q\x00."))},
      {FileKind::kPyTorch,
       Bytes("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.")},
      {FileKind::kPickle, Bytes("\x80\x02}q\x00X\x01\x00\x00\x00")},
      {FileKind::kPickle, Bytes("\x80\x03}q\x00X\x01\x00\x00\x00")},
      {FileKind::kPickle, Bytes("\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}")},
      {FileKind::kPickle, Bytes("\x80\x05\x95\x10\x00\x00\x00\x00\x00\x00\x00}")},
      {FileKind::kNpy, Bytes("\x93NUMPY\x01\x00v\x00{'descr': '<f4', ")},
      {FileKind::kNpz, Zip("w.npy", Bytes("\x93NUMPY\x01\x00"))},
      {FileKind::kHdf5, Bytes("\x89HDF\r\n\x1a\n\x00\x00\x00\x00\x00\x08\x08\x00")},
      {FileKind::kOnnx, Bytes("\x08\x07\x12\x07pytorch\x1a\x05"
                              "2.1.0:\xb0\x9a")},
      {FileKind::kOnnx, Bytes("\x08\x08:\xb0\x9a\x01\n\x20")},
      {FileKind::kSavedModel, Bytes("\x08\x01\x12\xc8\xf2\x03\n\xfa\x10\n\xd9\x0e")},
      {FileKind::kTfLite, Bytes("\x1c\x00\x00\x00TFL3\x14\x00\x20\x00")},
      {FileKind::kSentencePiece,
       Bytes("\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02\n\x0c\n\x03<s>\x15\x00")},
      {FileKind::kZip, Zip("torch/__init__.py", "import sys\n")},
      {FileKind::kZip, Bytes("PK\x05\x06\x00\x00\x00\x00\x00\x00")},
      {FileKind::kCompressed, Bytes("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")},
      {FileKind::kCompressed, Bytes("BZh91AY&SY\x12\x34")},
      {FileKind::kCompressed, Bytes("\xfd"
                                    "7zXZ\x00\x00\x04")},
      {FileKind::kCompressed, Bytes("\x28\xb5\x2f\xfd\x04\x58\x31\x00")},
      {FileKind::kCompressed, Bytes("7z\xbc\xaf\x27\x1c\x00\x04")},
      {FileKind::kCompressed, Bytes("Rar!\x1a\x07\x01\x00")},
      {FileKind::kTar, Tar()},
      {FileKind::kParquet, Bytes("PAR1\x15\x04\x15\x80")},
      {FileKind::kPdf, Bytes("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")},
      {FileKind::kUtf16, Bytes("\xff\xfe{\x00\r\x00")},
      {FileKind::kUtf16, Bytes("\xfe\xff\x00{")},
      {FileKind::kLfsPointer,
       "version https://git-lfs.github.com/spec/v1\n"
       "oid sha256:4665f1b0e6f0b2a8a3b5d9a6f6e6f6f6a6d6c6b6a696867666564636261605f5e\n"
       "size 1503300328\n"},
      {FileKind::kWebPage, "<!DOCTYPE html>\n<html class=\"\">\n"},
      {FileKind::kWebPage, "\n  <HTML><head>"},
      {FileKind::kWebPage, "\xef\xbb\xbf<!doctype HTML>"},
      {FileKind::kWebPage,
       "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied"},
      {FileKind::kHubMessage, "Entry not found"},
      {FileKind::kHubMessage, "Invalid username or password."},
      {FileKind::kHubMessage, "Access to model x/y is restricted. You must have "},
  };
}

std::vector<KindAndBeginning> JsonOfKinds() {
  std::string vocabulary = R"({"!": 0, "\"": 1)";
  for (int i = 2; i < 40; ++i) vocabulary += StrCat(", \"t\\\\", i, "\": ", i);
  return {
      {FileKind::kTokenizerJson,
       R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)"},
      {FileKind::kTokenizerConfig,
       R"({"add_bos_token": false, "added_tokens_decoder": {"0": {"content": "a"}}})"},
      {FileKind::kTokenizerConfig, R"({"tokenizer_class": "GPT2Tokenizer"})"},
      {FileKind::kVocabulary, vocabulary},
      {FileKind::kWeightIndex,
       R"({"metadata": {"total_size": 1}, "weight_map": {"a": "b.safetensors"}})"},
      {FileKind::kGenerationConfig,
       R"({"_from_model_config": true, "transformers_version": "4.51.0"})"},
      {FileKind::kAdapterConfig,
       R"({"base_model_name_or_path": "x", "peft_type": "LORA"})"},
      {FileKind::kDiffusersConfig,
       R"({"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.6.0"})"},
      {FileKind::kOriginalParams,
       R"({"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32})"},
      {FileKind::kForeignConfig,
       R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 8})"},
      {FileKind::kForeignConfig, R"({"model_type": "llama", "tokenizer_class": "x"})"},
  };
}

}  // namespace mnemon
