// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_order.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr std::string_view kSpace = " \t\n\r";

absl::Status OrderError(std::string_view fault) {
  return InvalidField("order_by", StrCat("order_by: ", fault));
}

// The word that begins `text`, without the space around it; it is taken off.
std::string_view TakeWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  const std::string_view word =
      text.substr(0, std::min(text.find_first_of(kSpace), text.size()));
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return word;
}

absl::StatusOr<SessionOrder::Key> ParseKey(std::string_view text) {
  const std::string_view name = TakeWord(text);
  if (name.empty()) return OrderError("expected a field before, behind or between ','");
  const SessionField* field = FindSessionField(name);
  if (field == nullptr) return OrderError(UnknownSessionField(name));
  const std::string_view direction = TakeWord(text);
  if (!text.empty() ||
      (!direction.empty() && direction != "asc" && direction != "desc")) {
    return OrderError(StrCat("behind the field ", name,
                             " stands asc, desc or nothing, not ",
                             Quoted(text.empty() ? direction : text)));
  }
  return SessionOrder::Key{field, direction == "desc"};
}

}  // namespace

absl::StatusOr<SessionOrder> SessionOrder::Parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return OrderError(StrCat("at most ", kMaxBytes, " bytes, got ", text.size()));
  }
  SessionOrder order;
  if (text.find_first_not_of(kSpace) == text.npos) return order;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != text.npos;
    MNEMON_ASSIGN_OR_RETURN(const Key key, ParseKey(text.substr(0, comma)));
    text.remove_prefix(more ? comma + 1 : text.size());
    for (const Key& before : order.keys_) {
      if (before.field == key.field) {
        return OrderError(StrCat("the field ", key.field->name, " stands there twice"));
      }
    }
    if (order.keys_.size() == kMaxFields) {
      return OrderError(StrCat("at most ", kMaxFields, " fields"));
    }
    order.keys_.push_back(key);
  }
  // A name is there once: what follows it never decides, and it comes last by itself.
  const SessionField* name = FindSessionField("name");
  const auto decides = [&](const Key& key) { return key.field == name; };
  auto end = std::find_if(order.keys_.begin(), order.keys_.end(), decides);
  if (end != order.keys_.end() && end->descending) ++end;
  order.keys_.erase(end, order.keys_.end());
  return order;
}

SessionOrder::Place SessionOrder::PlaceOf(const SessionFacts& facts) const {
  Place place;
  for (const Key& key : keys_) place.values.push_back(key.field->value(facts));
  place.id = facts.id;
  return place;
}

bool SessionOrder::Before(const Place& a, const Place& b) const {
  for (size_t i = 0; i < keys_.size(); ++i) {
    const auto order = a.values[i] <=> b.values[i];
    if (order != 0) return keys_[i].descending ? order > 0 : order < 0;
  }
  return a.id < b.id;
}

std::string SessionOrder::text() const {
  std::string text;
  for (const Key& key : keys_) {
    text += StrCat(key.field->name, key.descending ? " desc," : ",");
  }
  return text;
}

}  // namespace mnemon
