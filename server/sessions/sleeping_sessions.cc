// SPDX-License-Identifier: MIT
#include "server/sessions/sleeping_sessions.h"

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

void PutNumber(std::string& to, uint64_t number) {
  for (; number >= 0x80; number >>= 7) to += static_cast<char>(number | 0x80);
  to += static_cast<char>(number);
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

uint64_t WordOf(auto time) {
  return static_cast<uint64_t>(time.time_since_epoch().count());
}

template <class T>
T FromWord(uint64_t word) {
  return T(typename T::duration(static_cast<int64_t>(word)));
}

}  // namespace

SleepingSessions::Block::Block(const SleepingSession& session) {
  const SleepingFacts& facts = session.facts;
  const uint64_t words[] = {WordOf(facts.expiry), WordOf(facts.last_use_time),
                            facts.nonce};
  std::string block(reinterpret_cast<const char*>(words), sizeof(words));
  for (const std::string_view text : {session.id, session.request_id}) {
    PutNumber(block, text.size());
    block += text;
  }
  for (const uint64_t number : {uint64_t{facts.model}, facts.updates, facts.taken_back,
                                facts.version, facts.sleep}) {
    PutNumber(block, number);
  }
  bytes_ = std::make_unique_for_overwrite<char[]>(block.size());
  std::ranges::copy(block, bytes_.get());
}

SleepingSession SleepingSessions::Block::Read(const char*& end) const {
  const char* const block = bytes_.get();
  end = block + kTextsAt;
  SleepingSession session;
  session.id = TakeText(end);
  session.request_id = TakeText(end);
  session.facts.model = static_cast<uint32_t>(TakeNumber(end));
  session.facts.updates = TakeNumber(end);
  session.facts.taken_back = TakeNumber(end);
  session.facts.version = TakeNumber(end);
  session.facts.sleep = TakeNumber(end);
  session.facts.nonce = WordAt(block, kNonceAt);
  session.facts.last_use_time =
      FromWord<std::chrono::system_clock::time_point>(WordAt(block, kLastUseAt));
  session.facts.expiry = expiry();
  return session;
}

SleepingSession SleepingSessions::Block::Read() const {
  const char* end;
  return Read(end);
}

std::string_view SleepingSessions::Block::id() const {
  const char* from = bytes_.get() + kTextsAt;
  return TakeText(from);
}

SleepingSessions::Time SleepingSessions::Block::expiry() const {
  return FromWord<Time>(WordAt(bytes_.get(), kExpiryAt));
}

void SleepingSessions::Block::SetExpiry(Time expiry) {
  const uint64_t word = WordOf(expiry);
  std::memcpy(bytes_.get() + kExpiryAt, &word, sizeof(word));
}

int64_t SleepingSessions::Block::bytes() const {
  // A pointer in a tree whose nodes are half full at least.
  constexpr int64_t kPlaceBytes = 2 * sizeof(void*);
  const char* end;
  const SleepingSession session = Read(end);
  return HeapBytes(end - bytes_.get()) +
         (session.request_id.empty() ? 1 : 2) * kPlaceBytes;
}

std::string_view SleepingSessions::RequestId::Of(const char* block) {
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
    // From here on of those that fall asleep later.
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
