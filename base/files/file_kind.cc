// SPDX-License-Identifier: MIT
#include "base/files/file_kind.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using Bytes = std::string_view;

constexpr Bytes kNotRead =
    "take the model's directory of Hugging Face with model.safetensors, or a GGUF file";
constexpr Bytes kUnpack = "unpack it and give what it holds";
constexpr Bytes kToSafetensors = "save what it holds as safetensors";

constexpr Bytes kBlank = " \t\r\n";

uint8_t Octet(Bytes begin, size_t i) {
  return i < begin.size() ? static_cast<uint8_t>(begin[i]) : 0;
}

template <size_t kSize>
bool BeginsWith(Bytes begin, const char (&magic)[kSize]) {
  return begin.starts_with(Bytes(magic, kSize - 1));
}

bool Contains(Bytes begin, Bytes part) { return begin.find(part) != Bytes::npos; }

Bytes WithoutBlanks(Bytes begin) {
  return begin.substr(std::min(begin.find_first_not_of(kBlank), begin.size()));
}

// A length below 2^32, then a JSON header.
bool IsSafetensors(Bytes begin) {
  return Octet(begin, 8) == '{' && begin.substr(4, 4) == Bytes("\0\0\0\0", 4);
}

bool IsGgml(Bytes begin) {
  // Numbers of 32 bits: ggml, ggmf, ggjt, ggla.
  return BeginsWith(begin, "lmgg") || BeginsWith(begin, "fmgg") ||
         BeginsWith(begin, "tjgg") || BeginsWith(begin, "algg");
}

bool IsZip(Bytes begin) {
  return BeginsWith(begin, "PK\x03\x04") || BeginsWith(begin, "PK\x05\x06");
}

// The name of the first file in an archive.
Bytes FirstName(Bytes begin) {
  constexpr size_t kLength = 26, kName = 30;
  if (begin.size() < kName) return {};
  return begin.substr(kName, Octet(begin, kLength) | Octet(begin, kLength + 1) << 8);
}

bool IsPyTorch(Bytes begin) {
  // torch.save from before archives pickles this number first.
  if (BeginsWith(begin, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")) {
    return true;
  }
  return IsZip(begin) && Contains(begin, "/data.pkl");
}

bool IsPickle(Bytes begin) {
  // Opcodes that may follow the protocol: a frame, a container, a global, a value.
  constexpr Bytes kOpcodes = "\x95}](c)XKGJMNCU\x8a\x8c";
  return Octet(begin, 0) == 0x80 && Octet(begin, 1) >= 2 && Octet(begin, 1) <= 5 &&
         begin.size() > 2 && kOpcodes.find(begin[2]) != Bytes::npos;
}

bool IsNpz(Bytes begin) { return IsZip(begin) && FirstName(begin).ends_with(".npy"); }

// ModelProto: ir_version, then the name of the producer or the graph.
bool IsOnnx(Bytes begin) {
  if (Octet(begin, 0) != 0x08 || Octet(begin, 1) < 2 || Octet(begin, 1) > 20)
    return false;
  if (Octet(begin, 2) == 0x3a) return true;
  const size_t length = Octet(begin, 3);
  const Bytes producer = begin.substr(std::min<size_t>(4, begin.size()), length);
  return Octet(begin, 2) == 0x12 && length > 0 && producer.size() == length &&
         std::ranges::all_of(producer, [](char c) { return c >= ' ' && c <= '~'; });
}

// SavedModel: its version, 1, and a graph that begins with its meta info.
bool IsSavedModel(Bytes begin) {
  if (!BeginsWith(begin, "\x08\x01\x12")) return false;
  size_t at = 3;
  while (at < 8 && Octet(begin, at) >= 0x80) ++at;
  return Octet(begin, at + 1) == 0x0a;
}

bool IsTfLite(Bytes begin) { return begin.size() > 8 && begin.substr(4, 4) == "TFL3"; }

// ModelProto: a piece, which is its text and its score.
bool IsSentencePiece(Bytes begin) {
  const size_t piece = Octet(begin, 1), text = Octet(begin, 3);
  return Octet(begin, 0) == 0x0a && Octet(begin, 2) == 0x0a && piece < 0x80 &&
         text + 7 <= piece && Octet(begin, 4 + text) == 0x15;
}

bool IsCompressed(Bytes begin) {
  return BeginsWith(begin, "\x1f\x8b\x08") ||
         (BeginsWith(begin, "BZh") && begin.substr(0, 10).ends_with("1AY&SY")) ||
         BeginsWith(begin,
                    "\xfd"
                    "7zXZ") ||
         BeginsWith(begin, "\x28\xb5\x2f\xfd") || BeginsWith(begin, "7z\xbc\xaf") ||
         BeginsWith(begin, "Rar!\x1a");
}

bool IsTar(Bytes begin) {
  return begin.size() > 262 && begin.substr(257, 5) == "ustar";
}

bool IsWebPage(Bytes begin) {
  if (BeginsWith(begin, "\xef\xbb\xbf")) begin.remove_prefix(3);
  begin = WithoutBlanks(begin);
  const auto same = [](char a, char b) {
    return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b);
  };
  for (const Bytes tag : {"<!doctype html", "<html", "<?xml", "<error>"}) {
    if (std::ranges::equal(begin.substr(0, tag.size()), tag, same)) return true;
  }
  return false;
}

bool IsHubMessage(Bytes begin) {
  return BeginsWith(begin, "Entry not found") ||
         BeginsWith(begin, "Repository not found") ||
         BeginsWith(begin, "Invalid username or password") ||
         BeginsWith(begin, "Access to model ");
}

bool HasMember(Bytes json, Bytes member) {
  return Contains(json, StrCat("\"", member, "\""));
}

bool IsTokenizerConfig(Bytes json) {
  return !HasMember(json, "model_type") &&
         (HasMember(json, "tokenizer_class") ||
          HasMember(json, "added_tokens_decoder") || HasMember(json, "add_bos_token"));
}

// Tokens and their ids: the first members are integers, more of them than in settings.
bool IsVocabulary(Bytes json) {
  constexpr int kTokens = 16;
  size_t at = json.find('{');
  const auto skip = [&](Bytes of) {
    at = std::min(json.find_first_not_of(of, at), json.size());
  };
  for (int i = 0; i < kTokens; ++i) {
    ++at;
    skip(kBlank);
    if (Octet(json, at) != '"') return false;
    for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\';
    ++at;
    skip(kBlank);
    if (Octet(json, at) != ':') return false;
    ++at;
    skip(kBlank);
    const size_t number = at;
    skip("0123456789");
    if (at == number) return false;
    skip(kBlank);
    if (Octet(json, at) != ',') return false;
  }
  return true;
}

struct KnownKind {
  FileKind kind;
  Bytes name;
  Bytes advice;
  bool (*is)(Bytes begin);
};

// The first match counts: other tests could match a safetensors file by its length.
constexpr auto kFileKinds = std::to_array<KnownKind>({
    {FileKind::kSafetensors, "a safetensors file",
     "weights alone; where a model is wanted, give the directory that holds it, with "
     "its config.json",
     IsSafetensors},
    {FileKind::kGguf, "a GGUF file", "a whole model; give it where a model is wanted",
     [](Bytes begin) { return BeginsWith(begin, "GGUF"); }},
    {FileKind::kTokenFile, "a token file of mnemon-train tokenize",
     "it is for data.text of a training",
     [](Bytes begin) { return BeginsWith(begin, "\x93MNTOK\r\n"); }},
    {FileKind::kGgml, "a ggml file of before GGUF", kNotRead, IsGgml},
    {FileKind::kPyTorch, "a PyTorch file (.pt, .pth, .bin)",
     "pickle is never read; convert it to safetensors, with transformers by "
     "model.save_pretrained(DIR, safe_serialization=True), of labml by "
     "scripts/convert-labml",
     IsPyTorch},
    {FileKind::kPickle, "a Python pickle",
     "pickle is never read; save what it holds as safetensors", IsPickle},
    {FileKind::kNpy, "a NumPy array (.npy)", kToSafetensors,
     [](Bytes begin) { return BeginsWith(begin, "\x93NUMPY"); }},
    {FileKind::kNpz, "an archive of NumPy arrays (.npz)", kToSafetensors, IsNpz},
    {FileKind::kHdf5, "an HDF5 file, as Keras writes (.h5)", kNotRead,
     [](Bytes begin) { return BeginsWith(begin, "\x89HDF\r\n\x1a\n"); }},
    {FileKind::kOnnx, "an ONNX model", kNotRead, IsOnnx},
    {FileKind::kSavedModel, "a TensorFlow SavedModel (.pb)", kNotRead, IsSavedModel},
    {FileKind::kTfLite, "a TensorFlow Lite model (.tflite)", kNotRead, IsTfLite},
    {FileKind::kSentencePiece, "a SentencePiece model (tokenizer.model)",
     "make a tokenizer.json of it, with transformers by "
     "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
     IsSentencePiece},
    {FileKind::kZip, "a zip archive or a Python wheel", kUnpack, IsZip},
    {FileKind::kCompressed, "compressed (gzip, bzip2, xz, zstd, 7z or rar)", kUnpack,
     IsCompressed},
    {FileKind::kTar, "a tar archive", kUnpack, IsTar},
    {FileKind::kParquet, "a Parquet table",
     "write its column of text as a file of plain UTF-8",
     [](Bytes begin) { return BeginsWith(begin, "PAR1"); }},
    {FileKind::kPdf, "a PDF document",
     "make plain text in UTF-8 of it, as pdftotext does",
     [](Bytes begin) { return BeginsWith(begin, "%PDF-"); }},
    {FileKind::kUtf16, "text in UTF-16",
     "convert it to UTF-8, as iconv -f UTF-16 -t UTF-8 does",
     [](Bytes begin) {
       return BeginsWith(begin, "\xff\xfe") || BeginsWith(begin, "\xfe\xff");
     }},
    {FileKind::kLfsPointer, "a Git LFS pointer, not the file itself",
     "fetch the file with git lfs pull",
     [](Bytes begin) { return BeginsWith(begin, "version https://git-lfs."); }},
    {FileKind::kWebPage, "a web page (HTML or XML), as a failed download leaves",
     "download the file again", IsWebPage},
    {FileKind::kHubMessage, "an error message of a model hub, not the file itself",
     "download the file again, with access to the model", IsHubMessage},
});

constexpr Bytes kWholeDirectory =
    "where a model is wanted, give the directory that holds it";

constexpr auto kJsonKinds = std::to_array<KnownKind>({
    {FileKind::kAdapterConfig, "the configuration of a PEFT adapter",
     "merge the adapter into its base model, with peft by merge_and_unload(), and save "
     "that model",
     [](Bytes json) { return HasMember(json, "peft_type"); }},
    {FileKind::kDiffusersConfig, "a configuration of diffusers",
     "models of images are not supported",
     [](Bytes json) { return HasMember(json, "_diffusers_version"); }},
    {FileKind::kTokenizerJson, "a tokenizer.json", kWholeDirectory,
     [](Bytes json) {
       return HasMember(json, "version") && HasMember(json, "truncation");
     }},
    {FileKind::kWeightIndex, "an index of safetensors files", kWholeDirectory,
     [](Bytes json) { return HasMember(json, "weight_map"); }},
    {FileKind::kGenerationConfig, "a generation_config.json", kWholeDirectory,
     [](Bytes json) { return HasMember(json, "_from_model_config"); }},
    {FileKind::kTokenizerConfig, "a tokenizer_config.json",
     "the tokens are in the tokenizer.json beside it", IsTokenizerConfig},
    {FileKind::kForeignConfig, "a config.json of Hugging Face's libraries",
     "a model of theirs is opened as its directory, whose config.json names a "
     "model_type",
     [](Bytes json) {
       return HasMember(json, "model_type") || HasMember(json, "architectures") ||
              HasMember(json, "transformers_version");
     }},
    {FileKind::kOriginalParams, "a params.json of a model in its makers' own format",
     kNotRead,
     [](Bytes json) {
       return HasMember(json, "dim") && HasMember(json, "n_heads") &&
              HasMember(json, "n_layers");
     }},
    {FileKind::kVocabulary, "a vocabulary (vocab.json) without its merges",
     "make a tokenizer.json of both, with transformers by "
     "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
     IsVocabulary},
});

std::optional<FileKind> FindKind(std::span<const KnownKind> kinds, Bytes begin) {
  begin = begin.substr(0, kFileKindBytes);
  for (const KnownKind& known : kinds) {
    if (known.is(begin)) return known.kind;
  }
  return std::nullopt;
}

}  // namespace

std::optional<FileKind> FindFileKind(std::string_view begin) {
  return FindKind(kFileKinds, begin);
}

std::optional<FileKind> FindJsonKind(std::string_view begin) {
  if (!WithoutBlanks(begin).starts_with('{')) return std::nullopt;
  return FindKind(kJsonKinds, begin);
}

std::string BeginningOf(const LargeFile& file) {
  std::string begin(static_cast<size_t>(std::min(file.size(), kFileKindBytes)), '\0');
  return file.Read(0, begin).ok() ? begin : "";
}

std::string Describe(FileKind kind) {
  for (const std::span<const KnownKind> kinds :
       {std::span<const KnownKind>(kFileKinds),
        std::span<const KnownKind>(kJsonKinds)}) {
    for (const KnownKind& known : kinds) {
      if (known.kind == kind) return StrCat(known.name, ": ", known.advice);
    }
  }
  return "";
}

absl::Status WrongKind(const std::string& path, FileKind kind) {
  return absl::InvalidArgumentError(StrCat(Quoted(path), " is ", Describe(kind)));
}

absl::Status CheckFileKind(const std::string& path, std::optional<FileKind> taken) {
  const auto file = LargeFile::Open(path, std::numeric_limits<int64_t>::max());
  return file.ok() ? CheckFileKind(*file, taken) : absl::OkStatus();
}

absl::Status CheckFileKind(const LargeFile& file, std::optional<FileKind> taken) {
  const std::optional<FileKind> kind = FindFileKind(BeginningOf(file));
  if (!kind || kind == taken) return absl::OkStatus();
  return WrongKind(file.path(), *kind);
}

}  // namespace mnemon
