// SPDX-License-Identifier: MIT
// Log lines to standard error: time, level, text. Control characters in the text are
// escaped, so no input can forge a line. What requests can cause is logged as events,
// whose volume is bounded. Safe for concurrent use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below `level` are dropped. Default kInfo.
void SetLogLevel(LogLevel level);

void Log(LogLevel level, std::string_view text);
inline void LogInfo(std::string_view text) { Log(LogLevel::kInfo, text); }
inline void LogWarning(std::string_view text) { Log(LogLevel::kWarning, text); }
inline void LogError(std::string_view text) { Log(LogLevel::kError, text); }

struct LogField {
  std::string_view key;
  std::string value;
};

// A line "event=NAME key=value ...": a value other than letters, digits and -._:/
// stands in quotes, with \" and \\ escaped, cut to 500 bytes. Of one `event`, 50 lines
// pass at once and 10 a second later; the next that passes says how many did not:
// suppressed=N. `event` is one of few constants, never input.
void LogEvent(LogLevel level, std::string_view event,
              const std::vector<LogField>& fields);

// `text` with every control character written as \xNN: what Log does to its lines.
std::string EscapeControls(std::string_view text);

}  // namespace mnemon
