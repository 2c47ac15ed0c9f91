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
#include "base/strings.h"
#include "base/token_bucket.h"
#include "nlohmann/json.hpp"
#include "spdlog/logger.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace mnemon {
namespace {

constexpr double kEventsPerSecond = 10;
constexpr double kEventBurst = 50;
constexpr size_t kMaxValue = 500;

// Of a JSON line Log writes the members after "level", without the braces.
constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";
constexpr char kJsonPattern[] =
    "{\"time\":\"%Y-%m-%dT%H:%M:%S.%e%z\",\"level\":\"%l\",%v}";

std::atomic<LogFormat> format{LogFormat::kText};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// One logger per format, so that no line is written with the other format's pattern.
// Never destroyed: threads may log while the process ends.
struct Loggers {
  spdlog::logger text = Make(kTextPattern);
  spdlog::logger json = Make(kJsonPattern);

  static spdlog::logger Make(const char* pattern) {
    spdlog::logger made("mnemon", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern(pattern);
    // A full or closed standard error must not end the process.
    made.set_error_handler([](const std::string&) {});
    return made;
  }
};

Loggers& AllLoggers() {
  static Loggers* loggers = new Loggers;
  return *loggers;
}

spdlog::logger& LoggerOf(LogFormat wanted) {
  return wanted == LogFormat::kJson ? AllLoggers().json : AllLoggers().text;
}

// `line` is what the pattern of `wanted` takes.
void Write(LogFormat wanted, LogLevel level, std::string_view line) {
  LoggerOf(wanted).log(ToSpdlog(level),
                       spdlog::string_view_t(line.data(), line.size()));
}

struct EventLimit {
  TokenBucket bucket{kEventsPerSecond, kEventBurst};
  std::atomic<int64_t> suppressed{0};
};

EventLimit& LimitOf(std::string_view event) {
  static std::mutex mutex;
  // Never destroyed, as the loggers. Bounded, because events are constants.
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

std::string EventLine(LogFormat wanted, std::string_view event,
                      const std::vector<LogField>& fields) {
  const bool json = wanted == LogFormat::kJson;
  std::string line =
      StrCat(json ? "\"event\":" : "event=", json ? AsJson(event) : std::string(event));
  for (const LogField& field : fields) {
    line += json ? StrCat(",", AsJson(field.key), ":") : StrCat(" ", field.key, "=");
    std::visit([&](const auto& value) { line += json ? AsJson(value) : AsText(value); },
               field.value);
  }
  return line;
}

}  // namespace

std::string EscapeControls(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = text[i];
    unsigned char next = i + 1 < text.size() ? text[i + 1] : 0;
    if (c < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&escaped, "\\x%02x", c);
    } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
      // U+0080 .. U+009F: terminals take them for control sequences too.
      absl::StrAppendFormat(&escaped, "\\x%02x", next);
      ++i;
    } else {
      escaped.push_back(static_cast<char>(c));
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

void SetLogLevel(LogLevel level) {
  AllLoggers().text.set_level(ToSpdlog(level));
  AllLoggers().json.set_level(ToSpdlog(level));
}

void SetLogFormat(LogFormat wanted) { format = wanted; }
LogFormat log_format() { return format; }

void LogEvent(LogLevel level, std::string_view event,
              const std::vector<LogField>& fields) {
  const LogFormat wanted = format;
  if (!LoggerOf(wanted).should_log(ToSpdlog(level))) return;
  EventLimit& limit = LimitOf(event);
  if (limit.bucket.Take(std::chrono::steady_clock::now()).count() > 0) {
    ++limit.suppressed;
    return;
  }
  std::vector<LogField> all = fields;
  if (const int64_t suppressed = limit.suppressed.exchange(0); suppressed > 0) {
    all.push_back({"suppressed", suppressed});
  }
  std::string line = EventLine(wanted, event, all);
  if (wanted == LogFormat::kText) line = EscapeControls(line);
  Write(wanted, level, line);
}

void Log(LogLevel level, std::string_view text) {
  const LogFormat wanted = format;
  if (!LoggerOf(wanted).should_log(ToSpdlog(level))) return;
  Write(wanted, level,
        wanted == LogFormat::kJson ? StrCat("\"message\":", AsJson(text))
                                   : EscapeControls(text));
}

}  // namespace mnemon
