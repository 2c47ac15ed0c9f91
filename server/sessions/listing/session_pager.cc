// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_pager.h"

#include <algorithm>
#include <utility>

namespace mnemon {

void SessionPager::Add(SessionFacts facts) {
  if (complete() || !query_.Matches(facts)) return;
  SessionOrder::Place place = query_.PlaceOf(facts);
  if (!query_.IsAfterPage(place)) return;
  if (query_.by_name()) {
    entries_.push_back({std::move(place), std::move(facts)});
    return;
  }
  const auto before = [&](const Entry& a, const Entry& b) {
    return query_.Before(a.place, b.place);
  };
  if (entries_.size() > most()) {
    if (!query_.Before(place, entries_.front().place)) return;
    std::pop_heap(entries_.begin(), entries_.end(), before);
    entries_.pop_back();
  }
  entries_.push_back({std::move(place), std::move(facts)});
  std::push_heap(entries_.begin(), entries_.end(), before);
}

SessionPage SessionPager::Take() {
  if (!query_.by_name()) {
    std::sort_heap(entries_.begin(), entries_.end(),
                   [&](const Entry& a, const Entry& b) {
                     return query_.Before(a.place, b.place);
                   });
  }
  SessionPage page;
  if (entries_.size() > most()) {
    entries_.pop_back();
    page.next_page_token = query_.TokenAfter(entries_.back().place);
  }
  page.sessions.reserve(entries_.size());
  for (Entry& entry : entries_) page.sessions.push_back(std::move(entry.facts));
  entries_.clear();
  return page;
}

}  // namespace mnemon
