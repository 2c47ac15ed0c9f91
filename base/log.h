// SPDX-License-Identifier: MIT
// Log lines to standard error: time, level, text. Control characters in the text are
// escaped, so no input can forge a line. Safe for concurrent use.
#pragma once

#include <string>
#include <string_view>

namespace mnemon {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below `level` are dropped. Default kInfo.
void SetLogLevel(LogLevel level);

void Log(LogLevel level, std::string_view text);
inline void LogInfo(std::string_view text) { Log(LogLevel::kInfo, text); }
inline void LogWarning(std::string_view text) { Log(LogLevel::kWarning, text); }
inline void LogError(std::string_view text) { Log(LogLevel::kError, text); }

// `text` with every control character written as \xNN: what Log does to its lines.
std::string EscapeControls(std::string_view text);

}  // namespace mnemon
