// SPDX-License-Identifier: MIT
#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log_output.h"
#include "base/strings.h"
#include "base/token_bucket.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

constexpr double kEventsPerSecond = 10;
constexpr double kEventBurst = 50;
constexpr size_t kMaxValue = 500;

std::atomic<LogFormat> format{LogFormat::kText};

struct EventLimit {
  TokenBucket bucket{kEventsPerSecond, kEventBurst};
  std::atomic<int64_t> suppressed{0};
};

EventLimit& LimitOf(std::string_view event) {
  static std::mutex mutex;
  // Never destroyed: threads may log while the process ends. Bounded, because events
  // are constants.
  static auto* limits = new std::map<std::string, EventLimit, std::less<>>;
  std::lock_guard lock(mutex);
  const auto found = limits->find(event);
  return found != limits->end() ? found->second : (*limits)[std::string(event)];
}

bool IsPlain(unsigned char c) {
  return std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == ':' || c == '/';
}

std::string Cut(std::string_view value) {
  if (value.size() <= kMaxValue) return std::string(value);
  return StrCat(value.substr(0, kMaxValue), "...");
}

std::string AsText(const std::string& value) {
  if (!value.empty() && value.size() <= kMaxValue &&
      std::all_of(value.begin(), value.end(), IsPlain)) {
    return value;
  }
  std::string quoted = "\"";
  for (const char c : Cut(value)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}
std::string AsText(int64_t value) { return StrCat(value); }
std::string AsText(double value) { return absl::StrFormat("%.3f", value); }

std::string AsJson(std::string_view value) {
  return nlohmann::json(value).dump(-1, ' ', true,
                                    nlohmann::json::error_handler_t::replace);
}
std::string AsJson(const std::string& value) {
  return AsJson(std::string_view(Cut(value)));
}
std::string AsJson(int64_t value) { return StrCat(value); }
std::string AsJson(double value) {
  return std::isfinite(value) ? AsText(value) : "null";
}

void AppendField(LogFormat wanted, const LogField& field, std::string& line) {
  const bool json = wanted == LogFormat::kJson;
  line += json ? StrCat(",", AsJson(field.key), ":") : StrCat(" ", field.key, "=");
  std::visit([&](const auto& value) { line += json ? AsJson(value) : AsText(value); },
             field.value);
}

std::string EventLine(LogFormat wanted, std::string_view event,
                      std::span<const LogField> fields) {
  const bool json = wanted == LogFormat::kJson;
  std::string line =
      StrCat(json ? "\"event\":" : "event=", json ? AsJson(event) : std::string(event));
  for (const LogField& field : fields) AppendField(wanted, field, line);
  return line;
}

std::string LostLine(LogFormat wanted, int64_t lines) {
  const LogField fields[] = {{"lines", lines}};
  return EventLine(wanted, "log_lines_lost", fields);
}

std::atomic<LogOutput*> made_output{nullptr};

LogOutput& Output() {
  static LogOutput& output = []() -> LogOutput& {
    made_output = new LogOutput(&LostLine);
    return *made_output;
  }();
  return output;
}

}  // namespace

std::string EscapeControls(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  const auto escape = [&escaped](char32_t value) {
    absl::StrAppendFormat(&escaped, "\\x%02x", static_cast<uint32_t>(value));
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Piece piece = NextUtf8Piece(text, at);
    const std::string_view bytes = text.substr(at, piece.length);
    at += piece.length;
    const char32_t c = piece.code_point;
    if (piece.kind != Utf8Piece::kCodePoint) {
      for (const unsigned char byte : bytes) escape(byte);
    } else if (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
      escape(c);  // terminals take U+0080 .. U+009F for control sequences too
    } else {
      escaped += bytes;
    }
  }
  return escaped;
}

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return std::nullopt;
}

std::optional<LogFormat> ParseLogFormat(std::string_view name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return std::nullopt;
}

void SetLogLevel(LogLevel level) { Output().SetLevel(level); }

void SetLogFormat(LogFormat wanted) { format = wanted; }
LogFormat log_format() { return format; }

void LogEvent(LogLevel level, std::string_view event,
              std::span<const LogField> fields) {
  const LogFormat wanted = format;
  if (!Output().Takes(level)) return;
  EventLimit& limit = LimitOf(event);
  if (limit.bucket.Take(std::chrono::steady_clock::now()).count() > 0) {
    ++limit.suppressed;
    return;
  }
  std::string line = EventLine(wanted, event, fields);
  if (const int64_t suppressed = limit.suppressed.exchange(0); suppressed > 0) {
    AppendField(wanted, {"suppressed", suppressed}, line);
  }
  if (wanted == LogFormat::kText) line = EscapeControls(line);
  Output().Write(wanted, level, line);
}

void Log(LogLevel level, std::string_view text) {
  const LogFormat wanted = format;
  if (!Output().Takes(level)) return;
  Output().Write(wanted, level,
                 wanted == LogFormat::kJson ? StrCat("\"message\":", AsJson(text))
                                            : EscapeControls(text));
}

LogCounts log_counts() { return Output().counts(); }

bool FlushLog(std::chrono::milliseconds most) {
  const LogOutput* const output = made_output;
  return output == nullptr || output->Flush(most);
}

}  // namespace mnemon
