// SPDX-License-Identifier: MIT
#include "server/engine/session_bytes.h"

#include <string_view>
#include <vector>

#include "base/heap_bytes.h"

namespace mnemon {
namespace {

// With what is reserved for tokens on their way to the store, and the snapshots that it
// knows, whose names are ids.
constexpr int64_t kJournalBytes =
    SharedHeapBytes(sizeof(SessionJournal)) +
    HeapBytes(TokenStream::kCapacity * sizeof(int32_t)) +
    HeapBytes(static_cast<int64_t>(SessionJournal::kSnapshots) *
              (sizeof(StoredSnapshot) + 2 * sizeof(int64_t))) +
    static_cast<int64_t>(SessionJournal::kSnapshots) * HeapBytes(36);

// 0 of one without elements.
template <class T>
int64_t VectorBytes(const std::vector<T>& elements) {
  if (elements.capacity() == 0) return 0;
  return HeapBytes(static_cast<int64_t>(elements.capacity() * sizeof(T)));
}

}  // namespace

// With its node.
int64_t RememberedBytes(const std::string& request_id) {
  return HeapBytes(2 * sizeof(void*) + sizeof(request_id)) + TextHeapBytes(request_id);
}

// But for a prompt that is on its way into the history.
int64_t RecordBytes(const CallRecord* record) {
  if (record == nullptr) return 0;
  int64_t bytes = SharedHeapBytes(sizeof(ChargedRecord)) +
                  TextHeapBytes(record->request_id) +
                  TextHeapBytes(record->request_hash) +
                  VectorBytes(record->stop_tokens) + VectorBytes(record->end_tokens) +
                  VectorBytes(record->sampling.values.logit_bias) +
                  VectorBytes(record->logprobs.candidates.ids);
  for (const std::string& text : record->stop_strings) {
    bytes += static_cast<int64_t>(sizeof(text)) + TextHeapBytes(text);
  }
  return bytes;
}

int64_t BytesOf(const SessionSampling& sampling) {
  return SharedHeapBytes(sizeof(SessionSampling)) +
         VectorBytes(sampling.values.logit_bias);
}

int64_t SamplingBytes(const Session& session) {
  return session.sampling == nullptr ? 0 : BytesOf(*session.sampling);
}

int64_t FreshBytes(const Session& session) {
  int64_t bytes = Session::kBytes + SamplingBytes(session);
  for (const std::string* text :
       {&session.id, &session.parent, &session.request_id, &session.request_text}) {
    bytes += TextHeapBytes(*text);
  }
  if (session.journal) bytes += kJournalBytes + TextHeapBytes(session.id);
  if (!session.request_id.empty()) {
    bytes += HeapBytes(5 * sizeof(void*) + sizeof(std::string_view));
  }
  return bytes;
}

int64_t WholeBytes(const Session& session) {
  int64_t bytes = FreshBytes(session) + RecordBytes(session.newest_call.get());
  for (const std::string& id : session.request_ids) bytes += RememberedBytes(id);
  return bytes;
}

}  // namespace mnemon
