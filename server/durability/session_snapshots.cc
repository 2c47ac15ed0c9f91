// SPDX-License-Identifier: MIT
#include "server/durability/session_snapshots.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/state/state_image.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"
#include "server/snapshots/snapshot.h"

namespace mnemon {
namespace {

const StateSpec& SpecOf(const SnapshotPlace& place) {
  return place.runner->model().decoder->spec();
}

int64_t ImageBytes(const SnapshotPlace& place, int64_t computed) {
  return StateImage::Floats(SpecOf(place), computed) *
         static_cast<int64_t>(sizeof(float));
}

// An empty session without a name.
std::shared_ptr<Session> MakeScratch(const SnapshotPlace& place, size_t model) {
  return std::make_shared<Session>("", model, place.context->memory,
                                   &EngineMemory::prompts);
}

void Unpin(const SnapshotPlace& place, const std::shared_ptr<Session>& session) {
  place.runner->Do(MakeUnpinTask(session));
}

// MEMORY_LIMIT, unless `charge` takes so many bytes.
absl::Status Charge(const SnapshotPlace& place, ByteCharge& charge, int64_t bytes) {
  return charge.TrySet(bytes) ? absl::OkStatus() : place.context->MemoryLimit(bytes);
}

// Tokens that a state that is pinned contains.
int64_t ComputedBy(Session& session) {
  const SavedState& whole = session.in_runner.state.whole();
  return whole.empty() ? 0 : whole.position();
}

// The numbers of a state that is pinned.
absl::StatusOr<UnsetFloats> ReadState(const SnapshotPlace& place, Session& session) {
  const StateSpec& spec = SpecOf(place);
  UnsetFloats image;
  const SavedState& whole = session.in_runner.state.whole();
  if (whole.empty()) return image;
  image.resize(static_cast<size_t>(StateImage::Floats(spec, whole.position())));
  MNEMON_RETURN_IF_ERROR(
      StateImage::Read(spec, place.runner->state_memory(), whole, image));
  return image;
}

// Writes the numbers of a state that room was made for; unpins it where that fails.
absl::Status WriteState(const SnapshotPlace& place, const UnsetFloats& image,
                        const std::shared_ptr<Session>& session) {
  const absl::Status status =
      StateImage::Write(SpecOf(place), place.runner->state_memory(), image,
                        session->in_runner.state.whole());
  if (!status.ok()) Unpin(place, session);
  return status;
}

std::vector<SnapshotEntry> EntriesOf(const StateSpec& spec, int64_t computed) {
  std::vector<SnapshotEntry> entries;
  if (computed == 0) return entries;
  const int64_t first = StateImage::FirstRow(spec, computed);
  for (const StateEntry& entry : spec.entries) {
    const bool growing = entry.growth != Growth::kFixed;
    entries.push_back({.name = entry.name,
                       .shape = entry.shape,
                       .growth = entry.growth,
                       .capacity = entry.capacity,
                       .first_row = growing ? first : 0,
                       .rows = growing ? computed - first : 0});
  }
  return entries;
}

// Whether a state that was made with these facts is what the model would compute.
bool FitsModel(const SnapshotFacts& made, const EngineModel& model) {
  const StateSpec& spec = model.decoder->spec();
  return made.computed > 0 && made.model_id == model.facts.model_id &&
         made.numerics_id == model.facts.numerics_id && made.spec_hash == spec.Hash() &&
         made.entries == EntriesOf(spec, made.computed);
}

absl::StatusOr<EncodedSnapshot> EncodeCopy(const SnapshotPlace& place, Session& copy,
                                           const std::string& record) {
  const ModelFacts& facts = place.runner->model().facts;
  const StateSpec& spec = SpecOf(place);
  const int64_t computed = ComputedBy(copy);
  const int64_t tokens = copy.history.size();
  ByteCharge charge = ChargeOf(place.context->memory, &EngineMemory::output);
  // In memory: the numbers, and the bytes that are made of them.
  MNEMON_RETURN_IF_ERROR(Charge(place, charge,
                                2 * (ImageBytes(place, computed) +
                                     tokens * static_cast<int64_t>(sizeof(int32_t)))));
  Snapshot snapshot{{.model_id = facts.model_id,
                     .numerics_id = facts.numerics_id,
                     .architecture = facts.architecture,
                     .spec_hash = spec.Hash(),
                     .session = record,
                     .computed = computed,
                     .entries = EntriesOf(spec, computed)},
                    std::vector<int32_t>(static_cast<size_t>(tokens)),
                    /*state=*/{}};
  copy.history.Read(0, snapshot.tokens);
  MNEMON_ASSIGN_OR_RETURN(snapshot.state, ReadState(place, copy));
  EncodedSnapshot encoded{.computed = computed};
  MNEMON_ASSIGN_OR_RETURN(encoded.bytes, EncodeSnapshot(snapshot));
  encoded.history = std::move(snapshot.tokens);
  charge.Set(static_cast<int64_t>(encoded.bytes.capacity() +
                                  encoded.history.capacity() * sizeof(int32_t)));
  encoded.charge = std::move(charge);
  return encoded;
}

struct RestoreJob {
  SnapshotPlace place;
  std::shared_ptr<Session> session;
  std::shared_ptr<Session> scratch;  // with the history that is compared
  uint64_t version = 0;              // of that
  std::function<absl::StatusOr<std::string>()> read;
  OnAnswer<bool> on_done;
  ByteCharge charge = {};
  Snapshot snapshot = {};
};

// Whether the state of the snapshot is one of the session.
absl::StatusOr<bool> DecodeToRestore(RestoreJob& job) {
  MNEMON_ASSIGN_OR_RETURN(const std::string bytes, job.read());
  MNEMON_ASSIGN_OR_RETURN(const SnapshotHeader header, ReadSnapshotHeader(bytes));
  if (!FitsModel(header, job.place.runner->model())) return false;
  job.charge = ChargeOf(job.place.context->memory, &EngineMemory::queue);
  if (!job.charge.TrySet(static_cast<int64_t>(bytes.size()) + header.state_bytes)) {
    return false;
  }
  MNEMON_ASSIGN_OR_RETURN(
      job.snapshot,
      DecodeSnapshot(bytes, {.tokens = job.place.runner->context_limit()}));
  // Of the history that it was made from this much is to be the session's.
  const TokenHistory& history = job.scratch->history;
  if (job.snapshot.computed >= history.size()) return false;
  for (int64_t i = 0; i < job.snapshot.computed; ++i) {
    if (history[i] != job.snapshot.tokens[i]) return false;
  }
  return true;
}

void WriteRestored(const std::shared_ptr<RestoreJob>& job) {
  const absl::Status written =
      WriteState(job->place, job->snapshot.state, job->scratch);
  if (!written.ok()) return job->on_done(written);
  job->place.runner->Do(
      MakeAdoptTask(job->session, job->version, job->scratch,
                    [job](auto adopted) { job->on_done(std::move(adopted)); }));
}

struct ImportJob {
  SnapshotPlace place;
  std::string bytes;
  std::shared_ptr<Session> session;
  std::function<absl::Status(Session&, const std::string&)> finish;
  OnAnswer<std::shared_ptr<Session>> on_done;
  ByteCharge charge = {};
  Snapshot snapshot = {};
  bool usable = false;  // the state
};

absl::Status DecodeToImport(ImportJob& job) {
  const ModelRunner& runner = *job.place.runner;
  const ModelFacts& facts = runner.model().facts;
  MNEMON_ASSIGN_OR_RETURN(const SnapshotHeader header, ReadSnapshotHeader(job.bytes));
  if (header.model_id != facts.model_id) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        StrCat("the snapshot was made by another model than '", facts.name, "'"),
        {.reason = "MODEL_FINGERPRINT",
         .metadata = {{"snapshot_model_id", header.model_id},
                      {"model_id", facts.model_id}}});
  }
  const int64_t most = runner.context_limit();
  if (header.tokens > most) {
    return engine_errors::ContextLimit(0, header.tokens, most);
  }
  job.charge = ChargeOf(job.place.context->memory, &EngineMemory::queue);
  MNEMON_RETURN_IF_ERROR(
      Charge(job.place, job.charge,
             static_cast<int64_t>(job.bytes.size()) + header.state_bytes +
                 header.tokens * static_cast<int64_t>(sizeof(int32_t))));
  MNEMON_ASSIGN_OR_RETURN(job.snapshot, DecodeSnapshot(job.bytes, {.tokens = most}));
  job.bytes = {};
  const std::vector<int32_t>& tokens = job.snapshot.tokens;
  MNEMON_RETURN_IF_ERROR(CheckTokens(tokens, "snapshot.tokens", runner.vocab()));
  TokenHistory& history = job.session->history;
  if (!history.Stage(tokens, 0)) {
    return job.place.context->MemoryLimit(history.BytesOf(header.tokens));
  }
  history.AppendStaged();
  history.TakeUnused();
  // A state of other numerics is computed again from the history.
  job.usable =
      job.snapshot.computed < header.tokens && FitsModel(job.snapshot, runner.model());
  job.session->rebuilt = job.snapshot.computed > 0 && !job.usable;
  return job.finish(*job.session, job.snapshot.session);
}

void InsertImported(const std::shared_ptr<ImportJob>& job, bool pinned) {
  job->place.runner->Do(MakeInsertTask(
      job->session, pinned, [job](auto made) { job->on_done(std::move(made)); }));
}

void TakeRoomToImport(const std::shared_ptr<ImportJob>& job) {
  if (!job->usable) return InsertImported(job, /*pinned=*/false);
  const auto write = [job] {
    const absl::Status written =
        WriteState(job->place, job->snapshot.state, job->session);
    written.ok() ? InsertImported(job, /*pinned=*/true) : job->on_done(written);
  };
  job->place.runner->Do(MakeRoomTask(job->session, job->snapshot.computed,
                                     [job, write](const absl::StatusOr<bool>& room) {
                                       if (!room.ok())
                                         return job->on_done(room.status());
                                       if (!*room)
                                         return InsertImported(job, /*pinned=*/false);
                                       job->place.context->snapshots.Post(
                                           MakeCallback(write));
                                     }));
}

struct VerifyJob {
  SnapshotPlace place;
  std::shared_ptr<Session> copy;
  std::shared_ptr<Session> replayed;
  BeginReplay begin_replay;
  OnAnswer<VerifiedSession> on_done;
  bool kept = false;  // the replayed state is pinned
};

absl::StatusOr<VerifiedSession> OutcomeOf(const VerifyJob& job) {
  const SnapshotPlace& place = job.place;
  const int64_t computed = ComputedBy(*job.copy);
  VerifiedSession outcome;
  outcome.position = job.copy->history.size();
  ByteCharge charge = ChargeOf(place.context->memory, &EngineMemory::output);
  const int64_t bytes = ImageBytes(place, computed);
  MNEMON_RETURN_IF_ERROR(Charge(place, charge, job.kept ? 2 * bytes : bytes));
  MNEMON_ASSIGN_OR_RETURN(const UnsetFloats state, ReadState(place, *job.copy));
  outcome.state_size_bytes = bytes;
  outcome.stored_form_valid =
      std::ranges::all_of(state, [](float number) { return std::isfinite(number); });
  if (!job.begin_replay) return outcome;
  outcome.replay_equal = true;
  if (!job.kept) return outcome;
  MNEMON_ASSIGN_OR_RETURN(const UnsetFloats again, ReadState(place, *job.replayed));
  size_t at = 0;
  for (const SnapshotEntry& entry : EntriesOf(SpecOf(place), computed)) {
    const auto count = static_cast<size_t>(entry.floats());
    if (at + count > again.size() ||
        std::memcmp(state.data() + at, again.data() + at, count * sizeof(float)) != 0) {
      outcome.replay_equal = false;
      outcome.first_difference = entry.name;
      break;
    }
    at += count;
  }
  return outcome;
}

void EndVerify(const VerifyJob& job, absl::StatusOr<VerifiedSession> outcome) {
  Unpin(job.place, job.copy);
  if (job.kept) Unpin(job.place, job.replayed);
  job.on_done(std::move(outcome));
}

void CompareReplayed(const std::shared_ptr<VerifyJob>& job) {
  job->place.context->snapshots.Post(MakeCallback([job] {
    EndVerify(*job, CatchOutOfMemory({}, [&] { return OutcomeOf(*job); }));
  }));
}

absl::Status BeginVerifyReplay(const std::shared_ptr<VerifyJob>& job) {
  // The last token of a history is not computed.
  if (!job->replayed->history.ShareOf(job->copy->history, ComputedBy(*job->copy) + 1)) {
    return job->place.context->MemoryLimit(TokenHistory::kPieceBytes);
  }
  const OneAnswer<absl::Status> on_end = [job](absl::Status status) {
    if (!status.ok()) return EndVerify(*job, std::move(status));
    job->kept = true;
    CompareReplayed(job);
  };
  const absl::Status begun =
      CatchOutOfMemory({}, [&] { return job->begin_replay(job->replayed, on_end); });
  return begun.ok() || !on_end.Dismiss() ? absl::OkStatus() : begun;
}

}  // namespace

void ExportSnapshot(const SnapshotPlace& place, std::shared_ptr<Session> session,
                    CopyScope scope, std::string record,
                    OnAnswer<EncodedSnapshot> on_done) try {
  const auto copy = MakeScratch(place, session->model);
  const auto end = [place, copy, on_done](absl::StatusOr<EncodedSnapshot> outcome) {
    Unpin(place, copy);
    on_done(std::move(outcome));
  };
  place.runner->Do(MakeCopyTask(
      std::move(session), copy, std::move(scope),
      [place, copy, record = std::move(record),
       end](const absl::StatusOr<bool>& copied) {
        if (!copied.ok()) return end(copied.status());
        place.context->snapshots.Post(MakeCallback([place, copy, record, end] {
          end(CatchOutOfMemory({}, [&] { return EncodeCopy(place, *copy, record); }));
        }));
      }));
} catch (const std::bad_alloc&) {
  on_done(OutOfMemoryError());
}

void RestoreState(const SnapshotPlace& place, std::shared_ptr<Session> session,
                  std::function<absl::StatusOr<std::string>()> read,
                  OnAnswer<bool> on_done) try {
  // Its holder may go on without the state, and change it, before it is compared.
  const auto scratch = MakeScratch(place, session->model);
  if (!scratch->history.ShareOf(session->history, session->history.size())) {
    return on_done(place.context->MemoryLimit(TokenHistory::kPieceBytes));
  }
  const uint64_t version = session->history.version();
  const auto job =
      std::make_shared<RestoreJob>(RestoreJob{.place = place,
                                              .session = std::move(session),
                                              .scratch = scratch,
                                              .version = version,
                                              .read = std::move(read),
                                              .on_done = on_done});
  place.context->restores.Post(MakeCallback([job] {
    const auto usable = CatchOutOfMemory({}, [&] { return DecodeToRestore(*job); });
    if (!usable.ok() || !*usable) return job->on_done(usable);
    job->place.runner->Do(MakeRoomTask(
        job->scratch, job->snapshot.computed, [job](const absl::StatusOr<bool>& room) {
          if (!room.ok() || !*room) return job->on_done(room);
          job->place.context->restores.Post(
              MakeCallback([job] { WriteRestored(job); }));
        }));
  }));
} catch (const std::bad_alloc&) {
  on_done(OutOfMemoryError());
}

void ImportSnapshot(const SnapshotPlace& place, std::string snapshot,
                    std::shared_ptr<Session> session,
                    std::function<absl::Status(Session&, const std::string&)> finish,
                    OnAnswer<std::shared_ptr<Session>> on_done) try {
  const auto job = std::make_shared<ImportJob>(ImportJob{.place = place,
                                                         .bytes = std::move(snapshot),
                                                         .session = std::move(session),
                                                         .finish = std::move(finish),
                                                         .on_done = on_done});
  place.context->snapshots.Post(MakeCallback([job] {
    const absl::Status status =
        CatchOutOfMemory({}, [&] { return DecodeToImport(*job); });
    status.ok() ? TakeRoomToImport(job) : job->on_done(status);
  }));
} catch (const std::bad_alloc&) {
  on_done(OutOfMemoryError());
}

void VerifySnapshot(const SnapshotPlace& place, std::shared_ptr<Session> session,
                    BeginReplay begin_replay, OnAnswer<VerifiedSession> on_done) try {
  const size_t model = session->model;
  const auto job =
      std::make_shared<VerifyJob>(VerifyJob{.place = place,
                                            .copy = MakeScratch(place, model),
                                            .replayed = MakeScratch(place, model),
                                            .begin_replay = std::move(begin_replay),
                                            .on_done = on_done});
  place.runner->Do(MakeCopyTask(
      std::move(session), job->copy, {}, [job](const absl::StatusOr<bool>& copied) {
        if (!copied.ok()) return EndVerify(*job, copied.status());
        if (!job->begin_replay || ComputedBy(*job->copy) == 0) {
          return CompareReplayed(job);
        }
        const absl::Status begun =
            CatchOutOfMemory({}, [&] { return BeginVerifyReplay(job); });
        if (!begun.ok()) EndVerify(*job, begun);
      }));
} catch (const std::bad_alloc&) {
  on_done(OutOfMemoryError());
}

}  // namespace mnemon
