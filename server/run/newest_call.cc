// SPDX-License-Identifier: MIT
#include "server/run/newest_call.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace mnemon {
namespace {

// Calls change(record) with a copy of what the session remembers of the call, and puts
// it in the place of that.
template <class Change>
void Remember(const EngineContext& context, const Call& call,
              const Change& change) try {
  if (!call.resume.record) return;
  SessionDirectory& directory = context.directory;
  const auto newest = directory.calls().NewestCall(*call.session);
  auto record = std::make_shared<ChargedRecord>(
      *newest, ChargeOf(context.memory, &EngineMemory::histories));
  record->charge.Set(PromptBytes(*record));
  change(*record);
  directory.calls().SetNewestCall(*call.session, std::move(record));
} catch (const std::bad_alloc&) {
  // What is remembered is still true, and a resume finds out the rest.
}

}  // namespace

void RememberEnd(const EngineContext& context, const Call& call) {
  Remember(context, call, [&](CallRecord& record) {
    record.end = {.status = call.delivery.ending->status,
                  .facts = call.delivery.ending->facts,
                  .size = call.session->history.size()};
  });
}

void RememberDetached(const EngineContext& context, const Call& call) {
  if (!call.resume.record) return;
  const int64_t size = call.session->history.size();
  if (size >= call.progress.prompt_end) {
    return Remember(context, call, [&](CallRecord& record) {
      record.delivered = std::min(size, call.cut_size());
    });
  }
  // Now it stays when no call runs.
  ByteCharge charge = ChargeOf(context.memory, &EngineMemory::histories);
  charge.Set(PromptBytes(*call.resume.undone));
  call.resume.undone->charge = std::move(charge);
  // Set first: it is there, whatever memory is left.
  const auto newest = context.directory.calls().NewestCall(*call.session);
  context.directory.calls().SetNewestCall(*call.session, call.resume.undone);
  if (!newest->end) return;
  Remember(context, call, [&](CallRecord& record) { record.end = newest->end; });
}

void RememberDelivered(const EngineContext& context, const Call& call) {
  Remember(context, call,
           [&](CallRecord& record) { record.delivered = call.cut_size(); });
}

void RememberStream(const EngineContext& context, const Call& call) {
  if (!call.resume.at) return;
  const int64_t size = call.session->history.size();
  Remember(context, call, [&](CallRecord& record) {
    // Unless it was cancelled, all that is there is still delivered.
    const int64_t now = call.stream->cancelled() ? call.cut_size() : *call.resume.at;
    record.delivered = std::min(size, std::max(record.delivered.value_or(size), now));
  });
}

}  // namespace mnemon
