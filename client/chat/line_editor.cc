// SPDX-License-Identifier: MIT
#include "client/chat/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "client/chat/call_file.h"

namespace mnemon::client {
namespace {

constexpr int kHistoryLines = 1000;
// Longer lines, such as pasted texts, are not kept.
constexpr size_t kMaxHistoryLine = 4096;

using HistoryOwner = std::unique_ptr<History, decltype(&history_end)>;

HistoryOwner MakeHistory() {
  HistoryOwner lines(history_init(), &history_end);
  HistEvent event;
  history(lines.get(), &event, H_SETSIZE, kHistoryLines);
  history(lines.get(), &event, H_SETUNIQUE, 1);
  return lines;
}

// The library writes in the encoding of the locale, and models write UTF-8.
void UseUtf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

class Editor final : public LineEditor {
 public:
  Editor(int stop, std::string history_file)
      : stop_(stop), history_file_(std::move(history_file)), lines_(MakeHistory()) {
    UseUtf8();
    Load(lines_.get());
    editor_ = el_init("mnemon", stdin, stdout, stderr);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &Prompt);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, &history, lines_.get());
    el_wset(editor_, EL_GETCFN, &GetCharacter);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_set(editor_, EL_BIND, "^W", "ed-delete-prev-word", nullptr);
    el_set(editor_, EL_BIND, "\\e[3~", "ed-delete-next-char", nullptr);
    // The user's own settings: ~/.editrc.
    el_source(editor_, nullptr);
  }

  ~Editor() override {
    el_end(editor_);
    Save();
  }

  std::optional<std::string> Next(const std::string& prompt) override {
    prompt_ = prompt;
    el_resize(editor_);
    // Before the prompt, since input typed after it is not echoed and is erased by the
    // kernel.
    el_set(editor_, EL_PREP_TERM, 1);
    int length = 0;
    const wchar_t* const text = el_wgets(editor_, &length);
    if (text == nullptr || length <= 0) return std::nullopt;
    std::string line;
    for (int i = 0; i < length && text[i] != L'\n'; ++i) {
      AppendUtf8(static_cast<char32_t>(text[i]), line);
    }
    Remember(line);
    return line;
  }

 private:
  static Editor& Of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }

  static char* Prompt(EditLine* editor) { return Of(editor).prompt_.data(); }

  // Reads one character of standard input: 1; 0 at its end, -1 if there will be none.
  static int GetCharacter(EditLine* editor, wchar_t* character) {
    std::mbstate_t state = {};
    while (true) {
      pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                      {.fd = Of(editor).stop_, .events = POLLIN}};
      if (poll(fds, 2, -1) < 0) {
        if (errno == EINTR) continue;
        return -1;
      }
      if (fds[1].revents != 0) return -1;
      char byte;
      const ssize_t size = read(STDIN_FILENO, &byte, 1);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return static_cast<int>(size);
      const size_t read = std::mbrtowc(character, &byte, 1, &state);
      if (read == static_cast<size_t>(-2)) continue;
      if (read == static_cast<size_t>(-1)) *character = L'\ufffd';
      return 1;
    }
  }

  void Remember(const std::string& line) {
    if (line.empty() || line.size() > kMaxHistoryLine) return;
    HistEvent event;
    history(lines_.get(), &event, H_ENTER, line.c_str());
    added_.push_back(line);
  }

  void Load(History* lines) const {
    HistEvent event;
    if (!history_file_.empty()) {
      history(lines, &event, H_LOAD, history_file_.c_str());
    }
  }

  // Reads the file once more, for chats that have ended meanwhile.
  void Save() const {
    if (history_file_.empty() || added_.empty()) return;
    const HistoryOwner all = MakeHistory();
    Load(all.get());
    HistEvent event;
    for (const std::string& line : added_) {
      history(all.get(), &event, H_ENTER, line.c_str());
    }
    std::error_code error;
    const std::filesystem::path folder =
        std::filesystem::path(history_file_).parent_path();
    if (std::filesystem::create_directories(folder, error)) {
      std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
    }
    const std::string written = StrCat(history_file_, ".", getpid());
    const int fd = open(written.c_str(),
                        O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return;
    FILE* const file = fdopen(fd, "w");
    if (file == nullptr) close(fd);
    const bool saved =
        file != nullptr && history(all.get(), &event, H_SAVE_FP, file) >= 0;
    const bool closed = file != nullptr && std::fclose(file) == 0;
    if (saved && closed && std::rename(written.c_str(), history_file_.c_str()) == 0) {
      return;
    }
    unlink(written.c_str());
  }

  const int stop_;
  const std::string history_file_;
  const HistoryOwner lines_;
  std::vector<std::string> added_;
  std::string prompt_;
  EditLine* editor_;
};

}  // namespace

std::string ChatHistoryFile() {
  const std::string folder = StateFolder();
  return folder.empty() ? "" : folder + "/chat_history";
}

std::unique_ptr<LineEditor> LineEditor::Create(int stop, std::string history_file) {
  return std::make_unique<Editor>(stop, std::move(history_file));
}

}  // namespace mnemon::client
