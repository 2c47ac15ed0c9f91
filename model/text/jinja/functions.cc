// SPDX-License-Identifier: MIT
#include "model/text/jinja/functions.h"

#include <ctime>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"

namespace mnemon::jinja {

absl::StatusOr<Value> NewRange(Runtime& runtime, int64_t start, int64_t stop,
                               int64_t step) {
  const int64_t count = step > 0 ? (stop > start ? (stop - start - 1) / step + 1 : 0)
                                 : (stop < start ? (start - stop - 1) / -step + 1 : 0);
  if (count > kMaxRange) return TooMuch("elements of a range", kMaxRange);
  MNEMON_RETURN_IF_ERROR(runtime.Spend(1 + count));
  auto made = std::make_shared<Sequence>();
  made->kind = Sequence::kRange;
  made->start = start;
  made->stop = stop;
  made->step = step;
  for (int64_t i = 0; i < count; ++i) {
    made->items.emplace_back(static_cast<Int>(start + i * step));
  }
  return Value(std::shared_ptr<const Sequence>(std::move(made)));
}

namespace {

absl::StatusOr<Value> Range(Runtime& runtime, const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(auto bound, Bind(arguments, {"start", "stop", "step"}, 1));
  if (!arguments.named.empty()) return Fail("takes no named arguments");
  for (const auto& part : bound) {
    if (part.has_value() && part->undefined()) return Fail(part->why());
  }
  if (!bound[1].has_value()) {
    bound[1] = bound[0];
    bound[0] = std::nullopt;
  }
  MNEMON_ASSIGN_OR_RETURN(const int64_t start, IntOr(bound[0], 0, "start"));
  MNEMON_ASSIGN_OR_RETURN(const int64_t stop, IntOr(bound[1], 0, "stop"));
  MNEMON_ASSIGN_OR_RETURN(const int64_t step, IntOr(bound[2], 1, "step"));
  if (step == 0) return Fail("the step of a range is 0");
  return NewRange(runtime, start, stop, step);
}

// Entries of dict(...): those of a dictionary or of a list of pairs, then the keyword
// arguments.
absl::StatusOr<std::vector<std::pair<Value, Value>>> Entries(
    Runtime& runtime, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) return Fail("takes at most 1 argument");
  for (const Value& source : arguments.positional) {
    if (source.undefined()) return Fail(source.why());
    if (const Dict* dict = source.dict()) {
      entries = dict->entries;
      continue;
    }
    MNEMON_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Collect(runtime, source));
    for (const Value& pair : pairs) {
      MNEMON_ASSIGN_OR_RETURN(std::vector<Value> both, Collect(runtime, pair));
      if (both.size() != 2) return Fail("takes pairs");
      entries.emplace_back(std::move(both[0]), std::move(both[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    entries.emplace_back(Value::OfText(name), value);
  }
  return entries;
}

absl::StatusOr<Value> MakeDict(Runtime& runtime, const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(auto entries, Entries(runtime, arguments));
  return runtime.NewDict(std::move(entries));
}

absl::StatusOr<Value> MakeNamespace(Runtime& runtime, const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(auto entries, Entries(runtime, arguments));
  std::vector<std::pair<std::string, Value>> attributes;
  for (auto& [key, value] : entries) {
    if (key.text() == nullptr) return Fail("takes names that are strings");
    const std::string& name = key.text()->bytes;
    if (name.starts_with("_")) {
      return Fail("the name ", Quoted(name), " begins with an underscore");
    }
    attributes.emplace_back(name, std::move(value));
  }
  return runtime.NewNamespace(std::move(attributes));
}

absl::StatusOr<Value> RaiseException(Runtime& runtime, const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"message"}, 1));
  MNEMON_ASSIGN_OR_RETURN(std::string message, Str(runtime, *bound[0]));
  constexpr size_t kMost = 1000;
  if (message.size() > kMost) message = message.substr(0, kMost) + "...";
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("the template raised: ", EscapeControls(message)),
                   {.reason = "TEMPLATE_RAISED"});
}

// Like datetime.strftime of a time without zone, in the C locale.
absl::StatusOr<Value> StrftimeNow(Runtime& runtime, const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"format"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const std::string given, TextOr(bound[0], "", "format"));
  constexpr size_t kMost = 1000;
  if (given.size() > kMost) return TooMuch("bytes of a time format", kMost);
  if (given.find('\0') != std::string::npos) return Fail("a NUL in a time format");
  std::string format;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != '%' || i + 1 == given.size()) {
      format += given[i];
      continue;
    }
    const char kind = given[++i];
    if (kind == 'f') {
      format += "000000";
    } else if (kind != 'z' && kind != 'Z') {
      format += {'%', kind};
    }
  }
  const absl::CivilSecond now = runtime.now();
  std::tm time = {};
  time.tm_year = static_cast<int>(now.year() - 1900);
  time.tm_mon = now.month() - 1;
  time.tm_mday = now.day();
  time.tm_hour = now.hour();
  time.tm_min = now.minute();
  time.tm_sec = now.second();
  time.tm_isdst = -1;
  time.tm_wday = (static_cast<int>(absl::GetWeekday(now)) + 1) % 7;
  time.tm_yday = absl::GetYearDay(now) - 1;
  // One more character distinguishes an empty result from one that is too long.
  format += ' ';
  std::string out(16 * kMost, '\0');
  const size_t bytes = std::strftime(out.data(), out.size(), format.c_str(), &time);
  if (bytes == 0) return TooMuch("bytes of a time", static_cast<int64_t>(out.size()));
  out.resize(bytes - 1);
  return runtime.NewText(std::move(out));
}

struct Function {
  std::string_view name;
  absl::StatusOr<Value> (*call)(Runtime& runtime, const Arguments& arguments);
};

constexpr Function kFunctions[] = {{"dict", MakeDict},
                                   {"namespace", MakeNamespace},
                                   {"raise_exception", RaiseException},
                                   {"range", Range},
                                   {"strftime_now", StrftimeNow}};

}  // namespace

bool IsFunction(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return true;
  }
  return false;
}

absl::StatusOr<Value> CallFunction(Runtime& runtime, std::string_view name,
                                   const Arguments& arguments) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return function.call(runtime, arguments);
  }
  return Fail("unknown function ", Quoted(name));
}

}  // namespace mnemon::jinja
