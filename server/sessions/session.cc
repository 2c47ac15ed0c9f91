// SPDX-License-Identifier: MIT
#include "server/sessions/session.h"

#include "server/sessions/session_journal.h"

namespace mnemon {
namespace {

// 0 of one without elements.
template <class T>
int64_t VectorBytes(const std::vector<T>& elements) {
  if (elements.capacity() == 0) return 0;
  return HeapBytes(static_cast<int64_t>(elements.capacity() * sizeof(T)));
}

}  // namespace

int64_t RememberedBytes(const std::string& request_id) {
  return HeapBytes(2 * sizeof(void*) + sizeof(request_id)) + TextHeapBytes(request_id);
}

int64_t RecordBytes(const CallRecord* record) {
  if (record == nullptr) return 0;
  const CallParams& params = *record->params;
  int64_t bytes =
      SharedHeapBytes(sizeof(ChargedRecord)) + SharedHeapBytes(sizeof(CallParams)) +
      TextHeapBytes(params.request_id) + TextHeapBytes(params.request_hash) +
      VectorBytes(params.stop_tokens) + VectorBytes(params.end_tokens) +
      VectorBytes(params.sampling.values.logit_bias) +
      VectorBytes(params.logprobs.candidates.ids);
  for (const std::string& text : params.stop_strings) {
    bytes += static_cast<int64_t>(sizeof(text)) + TextHeapBytes(text);
  }
  return bytes;
}

int64_t BytesOf(const SessionSampling& sampling) {
  return SharedHeapBytes(sizeof(SessionSampling)) +
         VectorBytes(sampling.values.logit_bias);
}

int64_t SamplingBytes(const Session& session) {
  return session.entry.sampling == nullptr ? 0 : BytesOf(*session.entry.sampling);
}

int64_t FreshBytes(const Session& session) {
  int64_t bytes = Session::kBytes + SamplingBytes(session);
  for (const std::string* text :
       {&session.id, &session.parent, &session.request_id, &session.request_text}) {
    bytes += TextHeapBytes(*text);
  }
  if (session.journal) bytes += session.journal->bytes();
  if (!session.request_id.empty()) {
    bytes += HeapBytes(5 * sizeof(void*) + sizeof(std::string_view));
  }
  return bytes;
}

int64_t WholeBytes(const Session& session) {
  int64_t bytes = FreshBytes(session) + RecordBytes(session.entry.newest_call.get());
  for (const std::string& id : session.entry.request_ids) bytes += RememberedBytes(id);
  return bytes;
}

}  // namespace mnemon
