// SPDX-License-Identifier: MIT
#include "client/chat.h"

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/chat_settings.h"
#include "client/describe_error.h"
#include "client/sampling_flags.h"

namespace mnemon::client {
namespace {

constexpr char kSeveralLines[] = "\"\"\"";

constexpr char kHelp[] =
    "A line is sent to the model as it is typed; several lines go between \"\"\" and "
    "\"\"\".\n"
    "/set NAME VALUE   temperature, top_k, top_p, min_p, typical_p, seed, max_tokens,\n"
    "                  repetition_penalty, frequency_penalty, presence_penalty,\n"
    "                  penalty_window; VALUE - = default\n"
    "/show             settings and session\n"
    "/clear            forget everything: a new session\n"
    "/bye              end; so does Ctrl-D. Ctrl-C stops an answer\n";

class Chat {
 public:
  Chat(Client& client, const ChatOptions& options, const ChatPorts& ports)
      : client_(client),
        options_(options),
        ports_(ports),
        generate_(options.generate) {}

  absl::Status Run() {
    MNEMON_RETURN_IF_ERROR(Open());
    Greet();
    while (!over_ && !ports_.stop_chat()) {
      std::optional<std::string> text = ReadText();
      if (!text) break;
      Handle(*text);
    }
    absl::Status closed = Close();
    return failure_.ok() ? closed : failure_;
  }

 private:
  absl::Status Open() {
    absl::StatusOr<SessionSummary> session = absl::NotFoundError("");
    if (!options_.session.empty()) session = client_.GetSession(options_.session);
    if (absl::IsNotFound(session.status())) {
      session = Create();
    }
    if (!session.ok()) return Described(session.status());
    generate_.session = session->id;
    return absl::OkStatus();
  }

  absl::StatusOr<SessionSummary> Create() {
    return client_.CreateSession(CreateSessionOptions{
        .id = options_.session, .model = options_.model, .ttl = options_.ttl});
  }

  absl::Status Close() {
    if (!options_.session.empty()) return absl::OkStatus();
    if (options_.keep) {
      ports_.note << "kept session " << ForTerminal(generate_.session) << "\n";
      return absl::OkStatus();
    }
    return Delete();
  }

  // It may have expired meanwhile.
  absl::Status Delete() {
    absl::Status status = client_.DeleteSession(generate_.session);
    return absl::IsNotFound(status) ? absl::OkStatus() : Described(status);
  }

  void Greet() {
    if (!options_.terminal) return;
    ports_.note << "session " << ForTerminal(generate_.session)
                << "; /help for commands, Ctrl-D ends\n";
  }

  std::optional<std::string> ReadText() {
    std::optional<std::string> line = ports_.read_line(false);
    if (!line || line->rfind(kSeveralLines, 0) != 0) return line;
    std::string text = line->substr(3);
    while (text.size() < 3 || text.compare(text.size() - 3, 3, kSeveralLines) != 0) {
      line = ports_.read_line(true);
      if (!line) return std::nullopt;
      text += StrCat(text.empty() ? "" : "\n", *line);
    }
    text.resize(text.size() - 3);
    several_lines_ = true;
    return text;
  }

  void Handle(const std::string& text) {
    const bool literal = std::exchange(several_lines_, false);
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return;
    if (!literal && text[0] == '/') {
      Fail(Command(text));
    } else {
      Fail(Answer(text));
    }
  }

  absl::Status Command(const std::string& text) {
    const std::string name = text.substr(0, text.find_first_of(" \t\r"));
    if (name == "/bye") {
      over_ = true;
    } else if (name == "/help") {
      ports_.note << kHelp;
    } else if (name == "/show") {
      return Show();
    } else if (name == "/set") {
      return ApplySetting(text.substr(name.size()), generate_);
    } else if (name == "/clear") {
      return Clear();
    } else {
      return absl::InvalidArgumentError(
          StrCat("unknown command ", Quoted(name), "; /help lists them"));
    }
    return absl::OkStatus();
  }

  absl::Status Show() {
    ports_.note << DescribeSettings(generate_);
    absl::StatusOr<SessionSummary> session = client_.GetSession(generate_.session);
    if (!session.ok()) return Described(session.status());
    ports_.note << ForTerminal(StrCat(
        "session     ", session->id, "\nmodel       ", session->model, "\ntokens      ",
        session->position, "\nstate bytes ", session->state_size_bytes, "\n"));
    return absl::OkStatus();
  }

  absl::Status Clear() {
    // A name can have one session at a time.
    if (!options_.session.empty()) {
      MNEMON_RETURN_IF_ERROR(Delete());
      return Open();
    }
    const absl::StatusOr<SessionSummary> session = Create();
    if (!session.ok()) return Described(session.status());
    const absl::Status deleted = Delete();
    generate_.session = session->id;
    return deleted;
  }

  absl::Status Answer(const std::string& text) {
    ports_.begin_answer();
    generate_.text = text;
    auto result = client_.Generate(generate_, [this](const GenerateChunk& chunk) {
      if (ports_.stop_answer()) return false;
      ports_.out << (options_.terminal ? ForTerminal(chunk.text) : chunk.text)
                 << std::flush;
      return ports_.out.good();
    });
    ports_.out << "\n" << std::flush;
    if (!ports_.out.good()) {
      over_ = true;
      return absl::UnavailableError("cannot write standard output");
    }
    if (result.ok() || ports_.stop_answer()) return absl::OkStatus();
    return Described(result.status());
  }

  void Fail(const absl::Status& status) {
    if (status.ok()) return;
    ports_.note << "mnemon: " << ForTerminal(std::string(status.message())) << "\n";
    if (absl::IsUnavailable(status)) over_ = true;
    if ((!options_.terminal || over_) && failure_.ok()) failure_ = status;
  }

  Client& client_;
  const ChatOptions& options_;
  const ChatPorts& ports_;
  GenerateOptions generate_;
  bool several_lines_ = false;
  bool over_ = false;
  absl::Status failure_;
};

}  // namespace

absl::Status RunChat(Client& client, const ChatOptions& options,
                     const ChatPorts& ports) {
  return Chat(client, options, ports).Run();
}

}  // namespace mnemon::client
