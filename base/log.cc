// SPDX-License-Identifier: MIT
#include "base/log.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/throttle.h"
#include "spdlog/logger.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace mnemon {
namespace {

constexpr double kEventsPerSecond = 10;
constexpr double kEventBurst = 50;
constexpr size_t kMaxValue = 500;

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

// Never destroyed: threads may log while the process ends.
spdlog::logger& Logger() {
  static spdlog::logger* logger = [] {
    auto* made =
        new spdlog::logger("mnemon", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    // A full or closed standard error must not end the process.
    made->set_error_handler([](const std::string&) {});
    return made;
  }();
  return *logger;
}

Throttle& LimitOf(std::string_view event) {
  static std::mutex mutex;
  // Never destroyed, as the logger. Bounded, because events are constants.
  static auto* limits = new std::map<std::string, Throttle, std::less<>>;
  std::lock_guard lock(mutex);
  const auto found = limits->find(event);
  if (found != limits->end()) return found->second;
  return limits->try_emplace(std::string(event), kEventsPerSecond, kEventBurst)
      .first->second;
}

bool IsPlain(unsigned char c) {
  return std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == ':' || c == '/';
}

void AppendValue(std::string_view value, std::string& line) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), IsPlain)) {
    line.append(value.substr(0, kMaxValue));
    return;
  }
  line += '"';
  for (const char c : value.substr(0, kMaxValue)) {
    if (c == '"' || c == '\\') line += '\\';
    line += c;
  }
  line += value.size() > kMaxValue ? "...\"" : "\"";
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

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

void LogEvent(LogLevel level, std::string_view event,
              const std::vector<LogField>& fields) {
  if (!Logger().should_log(ToSpdlog(level))) return;
  const std::optional<int64_t> suppressed =
      LimitOf(event).Pass(std::chrono::steady_clock::now());
  if (!suppressed) return;
  std::string line = StrCat("event=", event);
  for (const LogField& field : fields) {
    line += StrCat(" ", field.key, "=");
    AppendValue(field.value, line);
  }
  if (*suppressed > 0) line += StrCat(" suppressed=", *suppressed);
  Log(level, line);
}

void Log(LogLevel level, std::string_view text) {
  spdlog::logger& logger = Logger();
  if (!logger.should_log(ToSpdlog(level))) return;
  logger.log(ToSpdlog(level), spdlog::string_view_t(EscapeControls(text)));
}

}  // namespace mnemon
