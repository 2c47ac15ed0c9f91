// SPDX-License-Identifier: MIT
#include "server/calls/introspection_limits.h"

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"
#include "server/streams/token_stream.h"

namespace mnemon {

absl::Status CheckIntrospection(const IntrospectionFields& fields,
                                const EngineModel& model) {
  const IntrospectionFields there = model.decoder->introspection();
  for (const IntrospectionField& one : kIntrospectionFields) {
    if (!(fields.*one.field) || there.*one.field) continue;
    const std::string has =
        there.any()
            ? StrCat("it has ", NamesOf(there))
            : "only step forms on the CPU (--decoder step, --device cpu) have any";
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        StrCat("model ", Quoted(model.facts.name), " has no ", one.name, ": ", has),
        {.reason = "NO_INTROSPECTION", .field = "introspection"});
  }
  return absl::OkStatus();
}

absl::Status LimitIntrospection(const Call& call, const EngineModel& model,
                                int64_t end) {
  if (!call.params->introspection.any()) return absl::OkStatus();
  const Decoder& decoder = *model.decoder;
  const int64_t positions = MostSeen(decoder.spec(), end);
  const int64_t bytes =
      IntrospectionBytes(decoder.model(), call.params->introspection, positions);
  if (bytes > kMaxIntrospectionBytes) {
    return InvalidField(
        "introspection",
        StrCat("the introspection of a token that sees ", positions,
               " positions takes ", bytes, " bytes, at most ", kMaxIntrospectionBytes,
               " are given: ask for fewer tokens, or not for memory_reads"));
  }
  call.stream->SetCapacity(static_cast<int>(
      std::clamp<int64_t>(kMaxWaitingIntrospectionBytes / std::max<int64_t>(1, bytes),
                          1, TokenStream::kCapacity)));
  return absl::OkStatus();
}

}  // namespace mnemon
