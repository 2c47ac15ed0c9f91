// SPDX-License-Identifier: MIT
#include "client/chat/chat.h"

#include <algorithm>

#include "base/error.h"
#include "base/process/command_line.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/chat/chat_sessions.h"
#include "client/chat/chat_settings.h"
#include "client/request_id.h"
#include "client/terminal/context_limit.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/loss_notes.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {
namespace {

constexpr char kUser[] = "user";
constexpr char kSeveralLines[] = "\"\"\"";

constexpr char kHelp[] =
    "A line is a message in the model's chat template; a model without one gets it as\n"
    "it is typed. Several lines go between \"\"\" and \"\"\".\n"
    "/set NAME VALUE   temperature, top_k, top_p, min_p, typical_p, seed, max_tokens,\n"
    "                  repetition_penalty, frequency_penalty, presence_penalty,\n"
    "                  penalty_window_tokens; VALUE - = default\n"
    "/show             settings and session\n"
    "/clear            forget everything: a new session\n"
    "/continue         a new session that begins with the last part of what was said,\n"
    "                  half a context of it\n"
    "/resume [ID]      go on with an answer that was cut off, unless the session was "
    "used\n"
    "                  since; ID: the request id of a call that another client made\n"
    "/fork [NAME]      go on in a copy of the session; a NAME is kept at the end\n"
    "/rewind N         keep the first N tokens; -N takes the last N back; a name of a\n"
    "                  checkpoint goes back to it\n"
    "/save [NAME]      make a checkpoint of the session as it is\n"
    "/load NAME        go back to a checkpoint\n"
    "/verify [replay]  check what is stored of the session; or compute all of it "
    "again\n"
    "/sessions         the sessions of the server\n"
    "/bye              end; so does Ctrl-D. Ctrl-C stops an answer\n";

constexpr char kWaysOut[] =
    "/clear begins an empty session, /continue one with the last part of the text";

// Bytes of the conversation that are remembered for /continue.
constexpr size_t kMostSaid = size_t{1} << 20;

// At most `most` bytes from the end of `text`, which is UTF-8, in whole characters.
std::string LastBytes(const std::string& text, size_t most) {
  size_t begin = text.size() - std::min(text.size(), most);
  // Bytes 10xxxxxx continue a character.
  while (begin < text.size() && (text[begin] & 0xc0) == 0x80) ++begin;
  return text.substr(begin);
}

// The last messages with at most `most` bytes together, starting with one of the user;
// of a single message, its end.
std::vector<Message> LastMessages(const std::vector<Message>& messages, size_t most) {
  if (messages.size() == 1) {
    return {
        {.role = messages[0].role, .content = LastBytes(messages[0].content, most)}};
  }
  size_t begin = messages.size(), bytes = 0;
  for (size_t i = messages.size(); i-- > 0;) {
    bytes += messages[i].content.size();
    if (bytes > most) break;
    if (messages[i].role == kUser) begin = i;
  }
  return {messages.begin() + static_cast<ptrdiff_t>(begin), messages.end()};
}

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
    return failure_.ok() ? closed : Told(failure_);
  }

 private:
  absl::Status Open() {
    absl::StatusOr<Session> session = absl::NotFoundError("");
    if (!options_.session.empty()) session = client_.GetSession(options_.session);
    if (absl::IsNotFound(session.status())) session = Create(options_.session);
    if (!session.ok()) return Described(session.status());
    const std::optional<ModelSummary> model = FindModel(client_, session->model);
    in_template_ = model && model->has_chat_template;
    if (!in_template_ && !options_.system.empty()) {
      return absl::FailedPreconditionError(StrCat(
          "--system: the model ", Quoted(session->model), " has no chat template"));
    }
    if (!in_template_ && !generate_.stopping.max_tokens) {
      generate_.stopping.max_tokens = kDefaultMaxTokens;
    }
    Use(*session);
    if (session->state == "DETACHED") TellOfDetached();
    return absl::OkStatus();
  }

  void TellOfDetached() {
    const std::string id = ports_.recall ? ports_.recall(generate_.session) : "";
    if (!id.empty()) cut_ = Cut{.request_id = id};
    ports_.note << "the last answer of this session is unfinished: /resume"
                << (id.empty() ? " ID, with its request id," : "")
                << " continues it, anything else continues after what was delivered\n";
  }

  void Use(const Session& session) {
    generate_.session = session.id;
    model_ = session.model;
    empty_ = session.position == 0;
    said_.clear();
    first_.clear();
    cut_.reset();
  }

  // `name`: see ChatOptions.
  absl::StatusOr<Session> Create(const std::string& name) {
    const bool own = name.empty() || name == options_.session;
    absl::StatusOr<Session> session = client_.CreateSession(
        CreateSessionOptions{.id = name,
                             .model = options_.model,
                             .ttl = own ? options_.ttl : options_.named_ttl});
    if (session.ok() && name.empty()) unnamed_.push_back(session->id);
    return session;
  }

  bool IsNamed() const {
    return std::find(unnamed_.begin(), unnamed_.end(), generate_.session) ==
           unnamed_.end();
  }

  absl::Status Close() {
    absl::Status status;
    for (const std::string& session : unnamed_) {
      if (options_.keep) {
        ports_.note << "kept session " << ForTerminal(session) << "\n";
      } else {
        status.Update(Delete(session));
      }
    }
    return status;
  }

  // It may have expired meanwhile.
  absl::Status Delete(const std::string& session) {
    absl::Status status = client_.DeleteSession(session);
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
    } else if (name == "/continue") {
      return Continue();
    } else if (name == "/resume") {
      return Resume(text.substr(name.size()));
    } else if (name == "/fork") {
      return Fork(text.substr(name.size()));
    } else if (name == "/rewind") {
      return Rewound(ChatRewind(client_, generate_.session, text.substr(name.size())));
    } else if (name == "/load") {
      return Rewound(ChatLoad(client_, generate_.session, text.substr(name.size())));
    } else if (name == "/save") {
      return Note(ChatSave(client_, generate_.session, text.substr(name.size())));
    } else if (name == "/verify") {
      return Check(text.substr(name.size()));
    } else if (name == "/sessions") {
      return Note(ChatSessions(client_, text.substr(name.size())));
    } else {
      return absl::InvalidArgumentError(
          StrCat("unknown command ", Quoted(name), "; see /help"));
    }
    return absl::OkStatus();
  }

  absl::Status Show() {
    ports_.note << DescribeSettings(generate_);
    absl::StatusOr<Session> session = client_.GetSession(generate_.session);
    if (!session.ok()) return Described(session.status());
    ports_.note << ForTerminal(StrCat(
        "session     ", session->id, "\nmodel       ", session->model, "\ntokens      ",
        session->position, "\nstate bytes ", session->state_size_bytes, "\n"));
    return absl::OkStatus();
  }

  absl::Status Clear() {
    // A name belongs to one session at a time.
    const std::string old = generate_.session;
    const bool named = IsNamed();
    if (named) MNEMON_RETURN_IF_ERROR(Delete(old));
    const absl::StatusOr<Session> session = Create(named ? old : "");
    if (!session.ok()) return Described(session.status());
    Use(*session);
    if (named) return absl::OkStatus();
    std::erase(unnamed_, old);
    return Delete(old);
  }

  absl::Status Fork(const std::string& rest) {
    MNEMON_ASSIGN_OR_RETURN(const std::string name,
                            OneWord(rest, "/fork [NAME]", true));
    const absl::StatusOr<Session> fork =
        client_.ForkSession({.parent = generate_.session,
                             .id = name,
                             .ttl = name.empty() ? options_.ttl : options_.named_ttl});
    if (!fork.ok()) return Described(fork.status());
    // The fork has the same conversation so far.
    generate_.session = fork->id;
    cut_.reset();
    if (name.empty()) unnamed_.push_back(fork->id);
    ports_.note << "now in session " << ForTerminal(fork->id) << ", a copy with "
                << fork->position << " tokens"
                << (name.empty() && !options_.keep ? ", deleted at the end" : "")
                << "\n";
    return absl::OkStatus();
  }

  absl::Status Rewound(const absl::StatusOr<Session>& session) {
    MNEMON_RETURN_IF_ERROR(session.status());
    // The text of the kept tokens is not known here.
    said_.clear();
    empty_ = session->position == 0;
    cut_.reset();
    ports_.note << "the session has " << session->position << " tokens\n";
    return absl::OkStatus();
  }

  absl::Status Check(const std::string& rest) {
    ports_.begin_answer();
    std::string facts;
    const absl::Status status = ChatVerify(client_, generate_.session, rest, facts);
    ports_.note << facts;
    return ports_.stop_answer() ? absl::OkStatus() : status;
  }

  // Remembers a prompt, unless noted before, and its answer.
  void Remember(const std::string& said, const std::string& answer) {
    if (empty_) said_.insert(said_.end(), first_.begin(), first_.end());
    first_.clear();
    empty_ = false;
    if (!in_template_) {
      said_.resize(1);
      said_[0].content += said + answer;
    } else if (!said.empty() || said_.empty()) {
      said_.push_back({.role = kUser, .content = said});
      said_.push_back({.role = "assistant", .content = answer});
    } else {
      said_.back().content += answer;
    }
    said_ = LastMessages(said_, kMostSaid);
  }

  absl::Status Note(const absl::StatusOr<std::string>& text) {
    MNEMON_RETURN_IF_ERROR(text.status());
    ports_.note << *text;
    return absl::OkStatus();
  }

  absl::Status Continue() {
    if (said_.empty()) {
      return absl::FailedPreconditionError(
          "this chat has no text yet that a new session could begin with");
    }
    // A token has at least one byte.
    const std::optional<int64_t> limit = ContextLimitOf(client_, model_);
    std::vector<Message> part =
        LastMessages(said_, limit ? static_cast<size_t>(*limit) / 2 : kMostSaid);
    if (part.empty()) {
      return absl::FailedPreconditionError(
          "the last message and its answer are longer than half a context");
    }
    MNEMON_RETURN_IF_ERROR(Clear());
    if (in_template_) {
      ports_.note << "a new session begins with the last " << part.size()
                  << " messages, when the next one is sent\n";
      first_ = std::move(part);
      return absl::OkStatus();
    }
    ports_.begin_answer();
    const GenerateOptions options{.session = generate_.session,
                                  .text = part.front().content,
                                  .stopping = {.max_tokens = 0}};
    const auto result =
        client_.Generate(options, [](const GenerateChunk&) { return true; });
    if (!result.ok()) return Described(result.status());
    said_ = std::move(part);
    ports_.note << "a new session begins with the last " << result->prompt_tokens
                << " tokens\n";
    return absl::OkStatus();
  }

  absl::Status Answer(const std::string& text) {
    GenerateOptions options = generate_;
    if (in_template_) {
      options.messages = MessagesBefore();
      options.messages.push_back({.role = kUser, .content = text});
    } else {
      options.text = text;
    }
    cut_.reset();
    if (options.resume.automatic) {
      options.request_id = NewRequestId();
      cut_ = Cut{.request_id = options.request_id, .unsaid = text};
      const bool kept = options_.keep || IsNamed();
      if (kept && ports_.remember) ports_.remember(options.session, options.request_id);
    }
    return Print(options, text);
  }

  // Messages at the start of a session without history.
  std::vector<Message> MessagesBefore() const {
    if (!empty_) return {};
    std::vector<Message> messages = first_;
    if (!options_.system.empty()) {
      messages.insert(messages.begin(),
                      Message{.role = "system", .content = options_.system});
    }
    return messages;
  }

  absl::Status Resume(const std::string& rest) {
    MNEMON_ASSIGN_OR_RETURN(const std::string id,
                            OneWord(rest, "/resume [REQUEST_ID]", true));
    if (!id.empty()) cut_ = Cut{.request_id = id};
    if (!cut_) {
      return absl::FailedPreconditionError(
          "no unfinished answer in this chat: /resume ID continues that of another "
          "client");
    }
    GenerateOptions options = generate_;
    options.request_id = cut_->request_id;
    options.resume.after = cut_->last_index;
    return Print(options, cut_->unsaid);
  }

  // `said`: the prompt, if it is new.
  absl::Status Print(const GenerateOptions& options, const std::string& said) {
    ports_.begin_answer();
    std::string answer;
    auto result = client_.Generate(options, [&](const GenerateChunk& chunk) {
      if (ports_.stop_answer()) return false;
      if (chunk.resumed_after) ports_.note << ResumedNote(*chunk.resumed_after);
      if (cut_ && !chunk.tokens.empty()) {
        cut_->last_index =
            chunk.first_index + static_cast<int64_t>(chunk.tokens.size()) - 1;
      }
      answer += chunk.text;
      ports_.out << (options_.terminal ? ForTerminal(chunk.text) : chunk.text)
                 << std::flush;
      return ports_.out.good();
    });
    // A call that delivered nothing leaves the session as it was.
    if (result.ok() || !answer.empty()) {
      Remember(said, answer);
      if (cut_) cut_->unsaid.clear();
    }
    ports_.out << "\n" << std::flush;
    if (!ports_.out.good()) {
      over_ = true;
      return absl::UnavailableError("cannot write standard output");
    }
    if (result.ok()) {
      cut_.reset();
      if (result->finish_reason == kContextLimit) {
        ports_.note << "mnemon: " << DescribeContextLimit(client_, *result) << "; "
                    << kWaysOut << "\n";
      }
      return absl::OkStatus();
    }
    if (ports_.stop_answer()) return absl::OkStatus();
    const std::optional<ErrorDetail> detail = GetErrorDetail(result.status());
    if (!detail || detail->reason != kContextLimit) return Described(result.status());
    return absl::FailedPreconditionError(
        StrCat(Described(result.status()).message(), "; ", kWaysOut));
  }

  void Fail(const absl::Status& status) {
    if (status.ok()) return;
    ports_.note << "mnemon: " << ForTerminal(std::string(status.message())) << "\n";
    if (absl::IsUnavailable(status)) over_ = true;
    if ((!options_.terminal || over_) && failure_.ok()) failure_ = status;
  }

  // An answer that was not printed completely.
  struct Cut {
    std::string request_id;
    int64_t last_index = -1;  // of the newest printed token
    std::string unsaid;       // its prompt, while nothing has been printed
  };

  Client& client_;
  const ChatOptions& options_;
  const ChatPorts& ports_;
  GenerateOptions generate_;
  std::string model_;
  // Sessions of this chat whose ids the server drew: not kept unless asked for.
  std::vector<std::string> unnamed_;
  bool in_template_ = false;  // the model has a chat template
  bool empty_ = true;         // the session has no history
  // The end of the conversation as sent by this chat: messages of user and assistant in
  // turn, or, without a template, one with all the text.
  std::vector<Message> said_;
  std::vector<Message> first_;  // messages for the start of an empty session
  std::optional<Cut> cut_;
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
