// SPDX-License-Identifier: MIT
// The log: lines on standard error with time, level and text, or one JSON object each.
// Control characters are escaped in both forms, so that no input can forge a line.
// Messages that requests can cause are logged as events, whose rate is limited. The log
// has its own writer thread: only FlushLog waits for standard error. Safe for
// concurrent use.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace mnemon {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// kText: "2026-01-31T12:00:00.000+00:00 info TEXT".
// kJson: {"time":"2026-01-31T12:00:00.000+00:00","level":"info","message":"TEXT"}, in
// ASCII; bytes that are not UTF-8 become U+FFFD.
enum class LogFormat { kText, kJson };

// "debug", "info", "warning", "error"; "text", "json"; nullopt for other names.
std::optional<LogLevel> ParseLogLevel(std::string_view name);
std::optional<LogFormat> ParseLogFormat(std::string_view name);

// Lines below `level` are dropped. Default kInfo.
void SetLogLevel(LogLevel level);
// Default kText.
void SetLogFormat(LogFormat format);
LogFormat log_format();

void Log(LogLevel level, std::string_view text);
inline void LogInfo(std::string_view text) { Log(LogLevel::kInfo, text); }
inline void LogWarning(std::string_view text) { Log(LogLevel::kWarning, text); }
inline void LogError(std::string_view text) { Log(LogLevel::kError, text); }

struct LogField {
  std::string_view key;
  // Strings are cut to 500 bytes; doubles have three decimals.
  std::variant<std::string, int64_t, double> value;
};

// Text: "event=NAME key=value ..."; a string with characters other than letters, digits
// and -._:/ is quoted, with \" and \\ escaped. JSON: {..., "event":"NAME", "key":value,
// ...}. Of each `event`, 50 lines pass at once and 10 a second later; the next line
// that passes has the field suppressed, the number of dropped lines. `event` and keys
// are constants, never input.
void LogEvent(LogLevel level, std::string_view event, std::span<const LogField> fields);
// Fields in braces are not copied: copying a std::variant with a string is undefined in
// libstdc++ 12 if memory runs out.
inline void LogEvent(LogLevel level, std::string_view event,
                     std::initializer_list<LogField> fields) {
  LogEvent(level, event, std::span(fields.begin(), fields.size()));
}

// Lines since the start of the process.
struct LogCounts {
  int64_t written = 0;
  int64_t lost = 0;  // because the queue was full, or standard error failed
  int64_t waiting = 0;
  // How long the current line has waited for standard error; zero if none waits.
  std::chrono::milliseconds blocked{0};
  int64_t lost_meanwhile = 0;  // of `lost`
};
LogCounts log_counts();

// Waits until everything logged before has been written or lost; false if that takes
// longer than `most`. For the end of a process.
bool FlushLog(std::chrono::milliseconds most = std::chrono::milliseconds(1000));

// `text` with every control character, and every byte that is not UTF-8, written as
// \xNN, as Log does.
std::string EscapeControls(std::string_view text);

}  // namespace mnemon
