// SPDX-License-Identifier: MIT
#include "server/sessions/sleeping_sessions.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "base/memory/heap_bytes.h"

namespace mnemon {
namespace {

// A block is three words, expiry, last use and nonce, then numbers in as many bytes as
// they need, seven bits in each: the length of the id, the id, the length of the
// request id, that, the model, updates, those taken back, version, sleep.
constexpr size_t kExpiryAt = 0, kLastUseAt = 8, kNonceAt = 16, kTextsAt = 24;

uint64_t WordAt(const char* block, size_t at) {
  uint64_t word;
  std::memcpy(&word, block + at, sizeof(word));
  return word;
}

void SetWord(char* block, size_t at, uint64_t word) {
  std::memcpy(block + at, &word, sizeof(word));
}

char* PutNumber(char* to, uint64_t number) {
  for (; number >= 0x80; number >>= 7) *to++ = static_cast<char>(number | 0x80);
  *to++ = static_cast<char>(number);
  return to;
}

size_t NumberBytes(uint64_t number) {
  return (static_cast<size_t>(std::bit_width(number | 1)) + 6) / 7;
}

size_t SizeOf(const SleepingSession& session) {
  const SleepingFacts& facts = session.facts;
  size_t size = kTextsAt + session.id.size() + session.request_id.size();
  for (const uint64_t number :
       {uint64_t{session.id.size()}, uint64_t{session.request_id.size()},
        uint64_t{facts.model}, facts.updates, facts.taken_back, facts.version,
        facts.sleep}) {
    size += NumberBytes(number);
  }
  return size;
}

char* PutText(char* to, std::string_view text) {
  to = PutNumber(to, text.size());
  return std::copy(text.begin(), text.end(), to);
}

uint64_t TakeNumber(const char*& from) {
  uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(*from++);
    number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

std::string_view TakeText(const char*& from) {
  const size_t size = TakeNumber(from);
  const std::string_view text(from, size);
  from += size;
  return text;
}

uint64_t WordOf(std::chrono::steady_clock::time_point time) {
  return static_cast<uint64_t>(time.time_since_epoch().count());
}

}  // namespace

SleepingSessions::Block::Block(const SleepingSession& session)
    : bytes_(std::make_unique<char[]>(SizeOf(session))) {
  const SleepingFacts& facts = session.facts;
  SetWord(bytes_.get(), kExpiryAt, WordOf(facts.expiry));
  SetWord(bytes_.get(), kLastUseAt,
          static_cast<uint64_t>(facts.last_use_time.time_since_epoch().count()));
  SetWord(bytes_.get(), kNonceAt, facts.nonce);
  char* to = PutText(bytes_.get() + kTextsAt, session.id);
  to = PutText(to, session.request_id);
  for (const uint64_t number : {uint64_t{facts.model}, facts.updates, facts.taken_back,
                                facts.version, facts.sleep}) {
    to = PutNumber(to, number);
  }
}

SleepingSession SleepingSessions::Block::Read() const {
  using std::chrono::system_clock;
  const char* const block = bytes_.get();
  const char* from = block + kTextsAt;
  SleepingSession session;
  session.id = TakeText(from);
  session.request_id = TakeText(from);
  session.facts.model = static_cast<uint32_t>(TakeNumber(from));
  session.facts.updates = TakeNumber(from);
  session.facts.taken_back = TakeNumber(from);
  session.facts.version = TakeNumber(from);
  session.facts.sleep = TakeNumber(from);
  session.facts.nonce = WordAt(block, kNonceAt);
  session.facts.last_use_time = system_clock::time_point(
      system_clock::duration(static_cast<int64_t>(WordAt(block, kLastUseAt))));
  session.facts.expiry = expiry();
  return session;
}

std::string_view SleepingSessions::Block::id() const {
  const char* from = bytes_.get() + kTextsAt;
  return TakeText(from);
}

SleepingSessions::Time SleepingSessions::Block::expiry() const {
  return Time(Time::duration(static_cast<int64_t>(WordAt(bytes_.get(), kExpiryAt))));
}

void SleepingSessions::Block::SetExpiry(Time expiry) {
  SetWord(bytes_.get(), kExpiryAt, WordOf(expiry));
}

int64_t SleepingSessions::Block::bytes() const {
  // A pointer in a tree whose nodes are half full at least.
  constexpr int64_t kPlaceBytes = 2 * sizeof(void*);
  const SleepingSession session = Read();
  return HeapBytes(static_cast<int64_t>(SizeOf(session))) +
         (session.request_id.empty() ? 1 : 2) * kPlaceBytes;
}

std::string_view SleepingSessions::ByRequest::KeyOf(const char* block) {
  const char* from = block + kTextsAt;
  TakeText(from);
  return TakeText(from);
}

void SleepingSessions::Add(Block block) {
  const SleepingSession session = block.Read();
  const Time expiry = session.facts.expiry;
  const int64_t bytes = block.bytes();
  const char* const key = block.bytes_.get();
  if (!session.request_id.empty()) by_request_.insert(key);
  try {
    by_id_.insert(std::move(block));
  } catch (const std::bad_alloc&) {
    if (!session.request_id.empty()) by_request_.erase(key);
    throw;
  }
  charge_.Set(charge_.bytes() + bytes);
  due_ = std::min(due_, expiry);
}

std::optional<SleepingSessions::Block> SleepingSessions::Take(std::string_view id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  charge_.Set(charge_.bytes() - found->bytes());
  if (!found->Read().request_id.empty()) by_request_.erase(found->bytes_.get());
  return std::move(by_id_.extract(found).value());
}

std::optional<SleepingSession> SleepingSessions::Find(std::string_view id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->Read();
}

std::optional<std::string_view> SleepingSessions::FindRequest(
    std::string_view request_id) const {
  const auto found = by_request_.find(request_id);
  if (found == by_request_.end()) return std::nullopt;
  const char* from = *found + kTextsAt;
  return TakeText(from);
}

bool SleepingSessions::LookForExpired(Time now, std::vector<std::string>& expired) {
  if (look_began_ == Time::max()) {
    if (now < due_) return false;
    look_began_ = now;
    look_from_.clear();
    look_next_ = Time::max();
    // Of those that fall asleep from here on.
    due_ = Time::max();
  }
  auto at = by_id_.lower_bound(std::string_view(look_from_));
  for (size_t n = 0; n < kLookedAtOnce && at != by_id_.end(); ++n, ++at) {
    if (at->expiry() <= now) {
      if (expired.size() == expired.capacity()) break;
      expired.emplace_back(at->id());
    }
    look_next_ = std::min(look_next_, at->expiry());
  }
  if (at == by_id_.end()) {
    look_began_ = Time::max();
    due_ = std::min(due_, std::max(look_next_, now + kLookAgain));
    return false;
  }
  look_from_ = at->id();
  return true;
}

}  // namespace mnemon
