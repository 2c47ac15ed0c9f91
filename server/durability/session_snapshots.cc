// SPDX-License-Identifier: MIT
#include "server/durability/session_snapshots.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

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

int64_t ImageBytes(const StateSpec& spec, int64_t computed) {
  return StateImage::Floats(spec, computed) * static_cast<int64_t>(sizeof(float));
}

// The numbers of a state that is pinned.
absl::StatusOr<UnsetFloats> ReadState(const ModelRunner& runner, Session& session) {
  const StateSpec& spec = runner.model().decoder->spec();
  UnsetFloats image;
  const SavedState& whole = session.in_runner.state.whole();
  if (whole.empty()) return image;
  image.resize(static_cast<size_t>(StateImage::Floats(spec, whole.position())));
  MNEMON_RETURN_IF_ERROR(StateImage::Read(spec, runner.state_memory(), whole, image));
  return image;
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

// One thing after the other on several threads, kept alive by what comes next.
class Job {
 public:
  explicit Job(SnapshotPlace place) : place_(std::move(place)) {}

 protected:
  void OnSnapshotThread(std::function<void()> work) const {
    place_.context->snapshots.Post(MakeCallback(std::move(work)));
  }
  void OnRestoreThread(std::function<void()> work) const {
    place_.context->restores.Post(MakeCallback(std::move(work)));
  }
  void Unpin(const std::shared_ptr<Session>& session) const {
    place_.runner->Do(MakeUnpinTask(session));
  }
  const StateSpec& spec() const { return place_.runner->model().decoder->spec(); }
  // MEMORY_LIMIT, unless `charge` takes so many bytes.
  absl::Status Charge(ByteCharge& charge, int64_t bytes) const {
    return charge.TrySet(bytes) ? absl::OkStatus() : place_.context->MemoryLimit(bytes);
  }

  const SnapshotPlace place_;
};

class ExportJob final : public Job, public std::enable_shared_from_this<ExportJob> {
 public:
  ExportJob(const SnapshotPlace& place, std::shared_ptr<Session> copy,
            std::string record, OnAnswer<EncodedSnapshot> on_done)
      : Job(place),
        copy_(std::move(copy)),
        record_(std::move(record)),
        on_done_(std::move(on_done)) {}

  void Start(std::shared_ptr<Session> session, CopyScope scope) {
    place_.runner->Do(MakeCopyTask(std::move(session), copy_, std::move(scope),
                                   [self = shared_from_this()](auto copied) {
                                     if (!copied.ok())
                                       return self->End(copied.status());
                                     self->OnSnapshotThread([self] {
                                       self->End(CatchOutOfMemory(
                                           {}, [&] { return self->Encode(); }));
                                     });
                                   }));
  }

 private:
  absl::StatusOr<EncodedSnapshot> Encode() {
    const ModelFacts& facts = place_.runner->model().facts;
    const SavedState& whole = copy_->in_runner.state.whole();
    const int64_t computed = whole.empty() ? 0 : whole.position();
    const int64_t tokens = copy_->history.size();
    ByteCharge charge = ChargeOf(place_.context->memory, &EngineMemory::output);
    // In memory: the numbers, and the bytes that are made of them.
    MNEMON_RETURN_IF_ERROR(
        Charge(charge, 2 * (ImageBytes(spec(), computed) +
                            tokens * static_cast<int64_t>(sizeof(int32_t)))));
    Snapshot snapshot{.model_id = facts.model_id,
                      .numerics_id = facts.numerics_id,
                      .architecture = facts.architecture,
                      .spec_hash = spec().Hash(),
                      .session = record_,
                      .tokens = std::vector<int32_t>(static_cast<size_t>(tokens)),
                      .computed = computed,
                      .entries = EntriesOf(spec(), computed),
                      .state = {}};
    copy_->history.Read(0, snapshot.tokens);
    MNEMON_ASSIGN_OR_RETURN(snapshot.state, ReadState(*place_.runner, *copy_));
    EncodedSnapshot encoded{
        .bytes = {}, .history = {}, .computed = computed, .charge = {}};
    MNEMON_ASSIGN_OR_RETURN(encoded.bytes, EncodeSnapshot(snapshot));
    encoded.history = std::move(snapshot.tokens);
    charge.Set(static_cast<int64_t>(encoded.bytes.capacity() +
                                    encoded.history.capacity() * sizeof(int32_t)));
    encoded.charge = std::move(charge);
    return encoded;
  }

  void End(absl::StatusOr<EncodedSnapshot> outcome) {
    Unpin(copy_);
    on_done_(std::move(outcome));
  }

  const std::shared_ptr<Session> copy_;
  const std::string record_;
  const OnAnswer<EncodedSnapshot> on_done_;
};

// Whether a state that was made with these facts is what the model would compute.
template <class Header>
bool FitsModel(const Header& header, const EngineModel& model) {
  const StateSpec& spec = model.decoder->spec();
  return header.computed > 0 && header.model_id == model.facts.model_id &&
         header.numerics_id == model.facts.numerics_id &&
         header.spec_hash == spec.Hash() &&
         header.entries == EntriesOf(spec, header.computed);
}

class RestoreJob final : public Job, public std::enable_shared_from_this<RestoreJob> {
 public:
  using Read = std::function<absl::StatusOr<std::string>()>;

  RestoreJob(const SnapshotPlace& place, std::shared_ptr<Session> session,
             std::shared_ptr<Session> scratch, Read read, OnAnswer<bool> on_done)
      : Job(place),
        session_(std::move(session)),
        scratch_(std::move(scratch)),
        read_(std::move(read)),
        on_done_(std::move(on_done)) {}

  void Start() {
    // Its holder may go on without the state, and change it, before it is compared.
    if (!scratch_->history.ShareOf(session_->history, session_->history.size())) {
      return on_done_(place_.context->MemoryLimit(TokenHistory::kPieceBytes));
    }
    version_ = session_->history.version();
    OnRestoreThread([self = shared_from_this()] {
      const auto usable = CatchOutOfMemory({}, [&] { return self->Decode(); });
      if (!usable.ok()) return self->on_done_(usable.status());
      if (!*usable) return self->on_done_(false);
      self->TakeRoom();
    });
  }

 private:
  absl::StatusOr<bool> Decode() {
    MNEMON_ASSIGN_OR_RETURN(const std::string bytes, read_());
    MNEMON_ASSIGN_OR_RETURN(const SnapshotHeader header, ReadSnapshotHeader(bytes));
    if (!FitsModel(header, place_.runner->model())) return false;
    charge_ = ChargeOf(place_.context->memory, &EngineMemory::queue);
    if (!charge_.TrySet(static_cast<int64_t>(bytes.size()) + header.state_bytes)) {
      return false;
    }
    MNEMON_ASSIGN_OR_RETURN(
        snapshot_, DecodeSnapshot(bytes, {.tokens = place_.runner->context_limit(),
                                          .state_bytes = kMaxSnapshotState}));
    // Of the history that it was made from this much is to be the session's.
    const TokenHistory& history = scratch_->history;
    if (snapshot_.computed >= history.size()) return false;
    for (int64_t i = 0; i < snapshot_.computed; ++i) {
      if (history[i] != snapshot_.tokens[i]) return false;
    }
    return true;
  }

  void TakeRoom() {
    place_.runner->Do(MakeRoomTask(scratch_, snapshot_.computed,
                                   [self = shared_from_this()](auto room) {
                                     if (!room.ok() || !*room)
                                       return self->on_done_(std::move(room));
                                     self->OnRestoreThread([self] { self->Write(); });
                                   }));
  }

  void Write() {
    const absl::Status status =
        StateImage::Write(spec(), place_.runner->state_memory(), snapshot_.state,
                          scratch_->in_runner.state.whole());
    if (!status.ok()) {
      Unpin(scratch_);
      return on_done_(status);
    }
    place_.runner->Do(MakeAdoptTask(session_, version_, scratch_,
                                    [self = shared_from_this()](auto adopted) {
                                      self->on_done_(std::move(adopted));
                                    }));
  }

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Session> scratch_;
  const Read read_;
  const OnAnswer<bool> on_done_;
  uint64_t version_ = 0;  // of the history that is compared
  ByteCharge charge_;
  Snapshot snapshot_;
};

class ImportJob final : public Job, public std::enable_shared_from_this<ImportJob> {
 public:
  using Finish = std::function<absl::Status(Session&, const std::string& record)>;

  ImportJob(const SnapshotPlace& place, std::string bytes,
            std::shared_ptr<Session> session, Finish finish,
            OnAnswer<std::shared_ptr<Session>> on_done)
      : Job(place),
        bytes_(std::move(bytes)),
        session_(std::move(session)),
        finish_(std::move(finish)),
        on_done_(std::move(on_done)) {}

  void Start() {
    OnSnapshotThread([self = shared_from_this()] {
      const absl::Status status = CatchOutOfMemory({}, [&] { return self->Decode(); });
      if (!status.ok()) return self->on_done_(status);
      self->TakeRoom();
    });
  }

 private:
  absl::Status Decode() {
    const ModelFacts& facts = place_.runner->model().facts;
    MNEMON_ASSIGN_OR_RETURN(const SnapshotHeader header, ReadSnapshotHeader(bytes_));
    if (header.model_id != facts.model_id) {
      return MakeError(
          absl::StatusCode::kFailedPrecondition,
          StrCat("the snapshot was made by another model than '", facts.name, "'"),
          {.reason = "MODEL_FINGERPRINT",
           .metadata = {{"snapshot_model_id", header.model_id},
                        {"model_id", facts.model_id}}});
    }
    const int64_t most = place_.runner->context_limit();
    if (header.tokens > most) {
      return engine_errors::ContextLimit(0, header.tokens, most);
    }
    charge_ = ChargeOf(place_.context->memory, &EngineMemory::queue);
    MNEMON_RETURN_IF_ERROR(
        Charge(charge_, static_cast<int64_t>(bytes_.size()) + header.state_bytes +
                            header.tokens * static_cast<int64_t>(sizeof(int32_t))));
    MNEMON_ASSIGN_OR_RETURN(
        snapshot_,
        DecodeSnapshot(bytes_, {.tokens = most, .state_bytes = kMaxSnapshotState}));
    bytes_ = {};
    for (size_t i = 0; i < snapshot_.tokens.size(); ++i) {
      MNEMON_RETURN_IF_ERROR(CheckToken(snapshot_.tokens[i], i, "snapshot.tokens",
                                        place_.runner->vocab()));
    }
    if (!session_->history.Stage(snapshot_.tokens, 0)) {
      return place_.context->MemoryLimit(session_->history.BytesOf(header.tokens));
    }
    session_->history.AppendStaged();
    session_->history.TakeUnused();
    // A state of other numerics is computed again from the history.
    const auto tokens = static_cast<int64_t>(snapshot_.tokens.size());
    usable_ =
        snapshot_.computed < tokens && FitsModel(snapshot_, place_.runner->model());
    session_->rebuilt = snapshot_.computed > 0 && !usable_;
    return finish_(*session_, snapshot_.session);
  }

  void TakeRoom() {
    if (!usable_) return Insert(/*pinned=*/false);
    place_.runner->Do(MakeRoomTask(session_, snapshot_.computed,
                                   [self = shared_from_this()](auto room) {
                                     if (!room.ok())
                                       return self->on_done_(room.status());
                                     if (!*room) return self->Insert(/*pinned=*/false);
                                     self->OnSnapshotThread([self] { self->Write(); });
                                   }));
  }

  void Write() {
    const absl::Status status =
        StateImage::Write(spec(), place_.runner->state_memory(), snapshot_.state,
                          session_->in_runner.state.whole());
    if (status.ok()) return Insert(/*pinned=*/true);
    Unpin(session_);
    on_done_(status);
  }

  void Insert(bool pinned) {
    place_.runner->Do(MakeInsertTask(
        session_, pinned, place_.context->directory,
        [self = shared_from_this()](auto made) { self->on_done_(std::move(made)); }));
  }

  std::string bytes_;
  const std::shared_ptr<Session> session_;
  const Finish finish_;
  const OnAnswer<std::shared_ptr<Session>> on_done_;
  ByteCharge charge_;
  Snapshot snapshot_;
  bool usable_ = false;
};

class VerifyJob final : public Job, public std::enable_shared_from_this<VerifyJob> {
 public:
  VerifyJob(const SnapshotPlace& place, std::shared_ptr<Session> copy,
            std::shared_ptr<Session> replayed, BeginReplay begin_replay,
            OnAnswer<VerifiedSession> on_done)
      : Job(place),
        copy_(std::move(copy)),
        replayed_(std::move(replayed)),
        begin_replay_(std::move(begin_replay)),
        on_done_(std::move(on_done)) {}

  void Start(std::shared_ptr<Session> session) {
    place_.runner->Do(MakeCopyTask(
        std::move(session), copy_, {}, [self = shared_from_this()](auto copied) {
          if (!copied.ok()) return self->End(copied.status());
          if (!self->begin_replay_ || self->computed() == 0) {
            return self->OnSnapshotThread([self] { self->Compare(); });
          }
          const absl::Status begun =
              CatchOutOfMemory({}, [&] { return self->Replay(); });
          if (!begun.ok()) self->End(begun);
        }));
  }

 private:
  int64_t computed() {
    return copy_->in_runner.state.has_state()
               ? copy_->in_runner.state.whole().position()
               : 0;
  }

  absl::Status Replay() {
    // The last token of a history is not computed.
    if (!replayed_->history.ShareOf(copy_->history, computed() + 1)) {
      return place_.context->MemoryLimit(TokenHistory::kPieceBytes);
    }
    const OneAnswer<absl::Status> on_end =
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->End(std::move(status));
          self->kept_ = true;
          self->OnSnapshotThread([self] { self->Compare(); });
        };
    const absl::Status begun =
        CatchOutOfMemory({}, [&] { return begin_replay_(replayed_, on_end); });
    return begun.ok() || !on_end.Dismiss() ? absl::OkStatus() : begun;
  }

  void Compare() {
    End(CatchOutOfMemory({}, [&] { return Outcome(); }));
  }

  absl::StatusOr<VerifiedSession> Outcome() {
    VerifiedSession outcome;
    outcome.position = copy_->history.size();
    ByteCharge charge = ChargeOf(place_.context->memory, &EngineMemory::output);
    const int64_t bytes = ImageBytes(spec(), computed());
    MNEMON_RETURN_IF_ERROR(Charge(charge, kept_ ? 2 * bytes : bytes));
    MNEMON_ASSIGN_OR_RETURN(const UnsetFloats state, ReadState(*place_.runner, *copy_));
    outcome.state_size_bytes = bytes;
    outcome.stored_form_valid = std::all_of(
        state.begin(), state.end(), [](float number) { return std::isfinite(number); });
    if (!begin_replay_) return outcome;
    outcome.replay_equal = true;
    if (!kept_) return outcome;
    MNEMON_ASSIGN_OR_RETURN(const UnsetFloats again,
                            ReadState(*place_.runner, *replayed_));
    size_t at = 0;
    for (const SnapshotEntry& entry : EntriesOf(spec(), computed())) {
      const auto count = static_cast<size_t>(entry.floats());
      if (at + count > again.size() || std::memcmp(state.data() + at, again.data() + at,
                                                   count * sizeof(float)) != 0) {
        outcome.replay_equal = false;
        outcome.first_difference = entry.name;
        break;
      }
      at += count;
    }
    return outcome;
  }

  void End(absl::StatusOr<VerifiedSession> outcome) {
    Unpin(copy_);
    if (kept_) Unpin(replayed_);
    on_done_(std::move(outcome));
  }

  const std::shared_ptr<Session> copy_;
  const std::shared_ptr<Session> replayed_;
  const BeginReplay begin_replay_;
  const OnAnswer<VerifiedSession> on_done_;
  bool kept_ = false;  // the replayed state is pinned
};

}  // namespace

void ExportSnapshot(const SnapshotPlace& place, std::shared_ptr<Session> session,
                    std::shared_ptr<Session> copy, CopyScope scope, std::string record,
                    OnAnswer<EncodedSnapshot> on_done) {
  std::make_shared<ExportJob>(place, std::move(copy), std::move(record),
                              std::move(on_done))
      ->Start(std::move(session), std::move(scope));
}

void RestoreState(const SnapshotPlace& place, std::shared_ptr<Session> session,
                  std::shared_ptr<Session> scratch,
                  std::function<absl::StatusOr<std::string>()> read,
                  OnAnswer<bool> on_done) {
  std::make_shared<RestoreJob>(place, std::move(session), std::move(scratch),
                               std::move(read), std::move(on_done))
      ->Start();
}

void ImportSnapshot(const SnapshotPlace& place, std::string snapshot,
                    std::shared_ptr<Session> session,
                    std::function<absl::Status(Session&, const std::string&)> finish,
                    OnAnswer<std::shared_ptr<Session>> on_done) {
  std::make_shared<ImportJob>(place, std::move(snapshot), std::move(session),
                              std::move(finish), std::move(on_done))
      ->Start();
}

void VerifySnapshot(const SnapshotPlace& place, std::shared_ptr<Session> session,
                    std::shared_ptr<Session> copy, std::shared_ptr<Session> replayed,
                    BeginReplay begin_replay, OnAnswer<VerifiedSession> on_done) {
  std::make_shared<VerifyJob>(place, std::move(copy), std::move(replayed),
                              std::move(begin_replay), std::move(on_done))
      ->Start(std::move(session));
}

}  // namespace mnemon
