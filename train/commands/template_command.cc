// SPDX-License-Identifier: MIT
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/civil_time.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/foreign_files.h"
#include "model/io/gguf_files.h"
#include "model/text/chat_files.h"
#include "model/text/jinja/template.h"
#include "nlohmann/json.hpp"
#include "train/commands/commands.h"

namespace mnemon {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostConfigBytes = int64_t{64} << 20;
constexpr size_t kMostLineBytes = size_t{64} << 20;

struct TemplateFlags {
  std::string file = "-";
  std::string checkpoint;
  std::string now;
};

absl::StatusOr<std::optional<std::string>> ReadIfThere(const Directory& directory,
                                                       const std::string& name) {
  absl::StatusOr<std::string> text = directory.Read(name, kMostConfigBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  return *std::move(text);
}

absl::StatusOr<ChatFiles> ChatFilesOf(const ForeignFiles& files) {
  return FindChatTemplate({.chat_template_jinja = files.chat_template_jinja,
                           .tokenizer_config_json = files.tokenizer_config_json,
                           .chat_template_json = files.chat_template_json});
}

absl::StatusOr<ChatFiles> ReadChatFiles(const std::string& path) {
  if (IsGgufFile(path)) {
    MNEMON_ASSIGN_OR_RETURN(const ForeignFiles files, ReadGgufTexts(path));
    return ChatFilesOf(files);
  }
  if (const auto found = FindForeignDirectory(path); found.has_value()) {
    MNEMON_ASSIGN_OR_RETURN(const ForeignFiles files, ReadForeignTexts(*found));
    return ChatFilesOf(files);
  }
  ChatFileTexts texts;
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) {
    MNEMON_RETURN_IF_ERROR(CheckFileKind(path));
    MNEMON_ASSIGN_OR_RETURN(texts.chat_template_jinja,
                            ReadFile(path, jinja::kMaxSourceBytes));
    return FindChatTemplate(texts);
  }
  MNEMON_ASSIGN_OR_RETURN(const Directory directory, Directory::Open(path));
  MNEMON_ASSIGN_OR_RETURN(texts.chat_template_jinja,
                          ReadIfThere(directory, "chat_template.jinja"));
  MNEMON_ASSIGN_OR_RETURN(texts.tokenizer_config_json,
                          ReadIfThere(directory, "tokenizer_config.json"));
  MNEMON_ASSIGN_OR_RETURN(texts.chat_template_json,
                          ReadIfThere(directory, "chat_template.json"));
  return FindChatTemplate(texts);
}

absl::StatusOr<absl::CivilSecond> TimeOf(const std::string& text) {
  if (text.empty()) return absl::ToCivilSecond(absl::Now(), absl::LocalTimeZone());
  absl::CivilSecond time;
  if (absl::ParseCivilTime(text, &time)) return time;
  return UsageError("--now " + Quoted(text) +
                    " is not a time like 2026-03-05T14:07:09");
}

// Variables of the template for a line: its members and those of "kwargs".
absl::StatusOr<ordered_json> VariablesOf(const std::string& line,
                                         const ChatFiles& files) {
  ordered_json given = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!given.is_object())
    return absl::InvalidArgumentError("the line is not a JSON object");
  ordered_json variables = {{"messages", ordered_json::array()},
                            {"tools", nullptr},
                            {"documents", nullptr},
                            {"add_generation_prompt", false}};
  if (files.bos_token.has_value()) variables["bos_token"] = *files.bos_token;
  if (files.eos_token.has_value()) variables["eos_token"] = *files.eos_token;
  ordered_json more = ordered_json::object();
  if (const auto found = given.find("kwargs"); found != given.end()) {
    if (!found->is_object()) {
      return absl::InvalidArgumentError("kwargs is not an object");
    }
    more = std::move(*found);
    given.erase(found);
  }
  for (ordered_json* const source : {&given, &more}) {
    for (auto& [name, value] : source->items()) variables[name] = std::move(value);
  }
  return variables;
}

absl::StatusOr<std::string> RenderLine(const JinjaTemplate& chat,
                                       const std::string& line, const ChatFiles& files,
                                       absl::CivilSecond now) {
  MNEMON_ASSIGN_OR_RETURN(const ordered_json variables, VariablesOf(line, files));
  return chat.Render(variables, now);
}

absl::Status RunTemplateRender(const TemplateFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(const absl::CivilSecond now, TimeOf(flags.now));
  MNEMON_ASSIGN_OR_RETURN(const ChatFiles files, ReadChatFiles(flags.checkpoint));
  if (!files.source.has_value()) {
    return absl::NotFoundError(StrCat(Quoted(flags.checkpoint),
                                      " has no chat template: chat_template.jinja, or "
                                      "chat_template in tokenizer_config.json or "
                                      "chat_template.json"));
  }
  MNEMON_ASSIGN_OR_RETURN(const JinjaTemplate chat,
                          JinjaTemplate::Parse(*files.source, files.file));
  std::ifstream opened;
  if (flags.file != "-") {
    opened.open(flags.file, std::ios::binary);
    if (!opened) return absl::NotFoundError("cannot open " + Quoted(flags.file));
  }
  std::istream& input = flags.file == "-" ? std::cin : opened;
  for (std::string line; std::getline(input, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.size() > kMostLineBytes) {
      return absl::InvalidArgumentError(StrCat(
          "a line of ", flags.file, " has more than ", kMostLineBytes, " bytes"));
    }
    const absl::StatusOr<std::string> text = RenderLine(chat, line, files, now);
    const ordered_json out =
        text.ok() ? ordered_json(*text)
                  : ordered_json{{"error", std::string(text.status().message())}};
    const auto strict = ordered_json::error_handler_t::replace;
    std::printf("%s\n", out.dump(-1, ' ', /*ensure_ascii=*/false, strict).c_str());
  }
  if (input.bad()) return absl::DataLossError("cannot read " + Quoted(flags.file));
  return absl::OkStatus();
}

}  // namespace

void AddTemplateCommand(CommandLine& line) {
  const Command parent = line.AddCommand(
      "template", "Chat templates of models.",
      {"mnemon-train template render --checkpoint model chats.jsonl"}, nullptr);
  auto flags = std::make_shared<TemplateFlags>();
  Command command = line.AddCommand(
      "render",
      "Writes the text that a chat template makes of each conversation: a JSON string "
      "a "
      "line, or {\"error\": ..}.",
      {"mnemon-train template render --checkpoint model chats.jsonl",
       "mnemon-train template render --checkpoint model.gguf chats.jsonl",
       "mnemon-train template render --checkpoint chat_template.jinja < chats.jsonl",
       "echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | "
       "mnemon-train "
       "template render --checkpoint model"},
      [flags] { return RunTemplateRender(*flags); }, &parent);
  command.Add(
      "file", &flags->file,
      "JSON objects, one a line: messages, tools, add_generation_prompt and other "
      "variables, or an object of them as kwargs; - is standard input");
  command
      .Add("--checkpoint", &flags->checkpoint,
           "Model directory of Hugging Face, GGUF file, or a template")
      .Required();
  command
      .Add("--now", &flags->now,
           "Local time that the template sees, as 2026-03-05T14:07:09")
      .Default("the time of day");
}

}  // namespace mnemon
