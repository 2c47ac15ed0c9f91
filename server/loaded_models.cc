// SPDX-License-Identifier: MIT
#include "server/loaded_models.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory/slabs.h"
#include "base/quote.h"
#include "base/resource_id.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/memory_plan.h"

namespace mnemon {
namespace {

std::string Bytes(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, value, units[unit]);
}

// What one full session takes from an arena, in whole blocks.
absl::StatusOr<int64_t> FullStateBytes(const StateSpec& spec) {
  if (!spec.growing()) return spec.bytes_at(0);
  // An arena takes memory when a block is used, so this one only counts.
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<StateArena> arena,
                          StateArena::Create(spec, {.slots = 1}));
  const int64_t block_bytes = spec.bytes_at(1) - spec.bytes_at(0);
  return arena->pools().blocks() * block_bytes + spec.bytes_at(0);
}

int64_t WeightBytesOf(const ServedModel& model) {
  return model.decoder ? model.decoder->weight_bytes()
                       : model.predictor->weight_bytes();
}

// A call's tokens, those that wait for their consumer included.
constexpr int64_t kCallTokens = int64_t{256} << 10;

// The memory with which calls of a model run one after the other: the blocks of a full
// session, of which an eighth may be unused, and beside its fixed entries those of a
// fresh session and a saved copy.
int64_t LeastCallBytes(const ServedModel& model, const ModelFacts& facts) {
  if (!model.decoder) return 0;
  const StateSpec& spec = model.decoder->spec();
  const int64_t fixed = spec.bytes_at(0);
  const int64_t pools = (spec.growing() ? 1 : 0) + (fixed > 0 ? 1 : 0);
  return (facts.state_bytes_per_session + 2 * fixed) / 7 * 8 +
         pools * Slabs::kHugePage + kCallTokens;
}

// Millions from a million on.
std::string Parameters(int64_t count) {
  if (count < 1'000'000) return StrCat(count);
  return absl::StrFormat("%.1fM", static_cast<double>(count) / 1e6);
}

std::string StateText(const StateSpec& spec) {
  std::vector<std::string> parts;
  if (const int64_t fixed = spec.bytes_at(0); fixed > 0) {
    parts.push_back(StrCat(Bytes(fixed), " per session"));
  }
  if (spec.growing()) {
    const int64_t row = spec.row_elements() * static_cast<int64_t>(sizeof(float));
    parts.push_back(StrCat(Bytes(row), " per token and session",
                           spec.growth() == Growth::kRing
                               ? StrCat(", of the last ", spec.capacity(), " tokens")
                               : std::string()));
  }
  return StrJoin(parts, " and ");
}

std::string RoomText(const SessionTiers& tiers, bool state_on_host) {
  std::vector<std::string> parts;
  for (const SessionTiers::AtRest& at : tiers.at_rest) {
    parts.push_back(StrCat(at.sessions,
                           state_on_host ? std::string() : StrCat(" + ", at.in_host),
                           parts.empty() ? " sessions of " : " of ", at.tokens,
                           parts.empty() ? " tokens" : ""));
  }
  return StrCat(StrJoin(parts, ", or "), " fit in ",
                state_on_host ? "memory" : "the memory of the GPU + the host's");
}

// Logs the main facts on one line.
void LogModel(const ModelFacts& facts, const std::string& sessions) {
  LogInfo(StrCat("model ", facts.name, ": ", facts.architecture, ", ",
                 Parameters(facts.parameters), " parameters, ", facts.precision,
                 ", vocabulary ", facts.vocab, ", context ",
                 facts.context_limit ? StrCat(*facts.context_limit, " tokens")
                                     : std::string("unlimited"),
                 facts.has_tokenizer ? "" : ", no tokenizer: token ids only",
                 sessions));
}

void LogTiers(const std::string& name, const SessionTiers& tiers) {
  Log(LogLevel::kDebug,
      StrCat("model ", name, ": ", tiers.running, " calls run at once"));
  for (const SessionTiers::AtRest& at : tiers.at_rest) {
    Log(LogLevel::kDebug,
        StrCat("model ", name, ": ", at.sessions, " sessions of ", at.tokens,
               " tokens fit at rest in memory, each with a state of ", at.state_bytes,
               " bytes and ", at.session_bytes, " bytes beside it"));
  }
}

absl::StatusOr<LoadedModels::One> LoadOne(const CheckpointFlag& flag,
                                          const ServeModelOptions& options) {
  LoadedModels::One one;
  MNEMON_ASSIGN_OR_RETURN(one.served, LoadServedModel(flag.dir, options));
  const ServedModel& served = one.served;
  one.facts = {.name = flag.name,
               .model_id = served.model_id,
               .architecture = served.architecture,
               .config_json = served.config_json,
               .vocab = served.description.vocab,
               .has_tokenizer = served.tokenizer != nullptr,
               .parameters = served.parameters,
               .precision = NameOf(served.format),
               .kernels = served.kernels,
               .chat_template = served.chat_template,
               .chat_program = served.chat_program,
               .no_chat_program = served.no_chat_program,
               .generation = served.generation};
  if (served.predictor) {
    one.facts.numerics_id = served.predictor->numerics_id();
    one.facts.context_limit = served.predictor->max_positions();
    return one;
  }
  const StateSpec& spec = served.decoder->spec();
  MNEMON_ASSIGN_OR_RETURN(one.facts.state_bytes_per_session, FullStateBytes(spec));
  one.facts.generates = true;
  one.facts.introspection = served.decoder->introspection();
  one.facts.numerics_id = served.decoder->numerics_id();
  if (spec.max_positions() != StateSpec::kUnlimited) {
    one.facts.context_limit = spec.max_positions();
  }
  return one;
}

}  // namespace

absl::StatusOr<std::vector<CheckpointFlag>> ParseCheckpointFlags(
    const std::vector<std::string>& values) {
  std::vector<CheckpointFlag> flags;
  std::set<std::string> names;
  for (const std::string& value : values) {
    const size_t equals = value.find('=');
    const bool named = equals != value.npos && IsResourceId(value.substr(0, equals));
    CheckpointFlag flag{
        .name = named ? value.substr(0, equals) : std::string(kDefaultModel),
        .dir = named ? value.substr(equals + 1) : value};
    if (flag.dir.empty()) {
      return InvalidField(
          "checkpoint", StrCat("--checkpoint ", Quoted(value), " names no directory"));
    }
    if (!names.insert(flag.name).second) {
      return InvalidField("checkpoint",
                          StrCat("--checkpoint: two models have the name ",
                                 Quoted(flag.name), "; give each its own NAME=DIR"));
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

absl::StatusOr<LoadedModels> LoadModels(const std::vector<CheckpointFlag>& flags,
                                        const Engine::Options& options, int64_t memory,
                                        const ServeModelOptions& model) {
  LoadedModels loaded;
  int64_t weights = 0;
  for (const CheckpointFlag& flag : flags) {
    MNEMON_ASSIGN_OR_RETURN(LoadedModels::One one, LoadOne(flag, model));
    for (const auto& [part, status] :
         {std::pair("chat template", one.served.no_chat_program),
          std::pair("tokenizer", one.served.no_tokenizer)}) {
      if (status.ok()) continue;
      LogWarning(StrCat("model ", flag.name, ": its ", part,
                        " is not supported: ", status.message()));
    }
    weights += WeightBytesOf(one.served);
    loaded.call_bytes =
        std::max(loaded.call_bytes, LeastCallBytes(one.served, one.facts));
    // Sessions get a part of it in any case.
    MNEMON_ASSIGN_OR_RETURN(
        loaded.engine_bytes,
        EngineBytes(memory, weights, MemoryShares::LeastFor(loaded.call_bytes)));
    const Attention* attention = FirstBlock<Attention>(one.served.description);
    if (attention != nullptr && attention->whole_segments) {
      LogInfo(StrCat("model ", flag.name,
                     ": trained with window: segment, served "
                     "sliding: the same up to mem_len + 1 = ",
                     *attention->window + 1, " tokens of history"));
    }
    loaded.models.push_back(std::move(one));
  }
  Engine::Options planned = options;
  planned.call_bytes = loaded.call_bytes;
  for (const LoadedModels::One& one : loaded.models) {
    if (!one.served.decoder) {
      LogModel(one.facts, "");
      continue;
    }
    Decoder& decoder = *one.served.decoder;
    const StateSpec& spec = decoder.spec();
    const bool on_host = decoder.MakeStateMemory() == nullptr;
    const SessionTiers tiers = PlanTiers(spec, one.facts.vocab, one.facts.context_limit,
                                         planned, loaded.engine_bytes, on_host);
    LogModel(one.facts, StrCat("; ", StateText(spec), "; ", RoomText(tiers, on_host)));
    LogTiers(one.facts.name, tiers);
  }
  LogInfo(StrCat("memory: at most ", Bytes(memory), ", ", Bytes(weights),
                 " of it weights"));
  const MemoryShares shares = MemoryShares::Of(loaded.engine_bytes, loaded.call_bytes);
  Log(LogLevel::kDebug,
      StrCat("memory: ", Bytes(loaded.engine_bytes),
             " for states, histories, prompts and predictions, of which sessions at "
             "rest leave ",
             Bytes(loaded.engine_bytes - shares.resting),
             " to calls and their states: they may take ", Bytes(shares.sessions),
             ", with their histories ", Bytes(shares.resting)));
  return loaded;
}

std::vector<EngineModel> LoadedModels::ForEngine() const {
  std::vector<EngineModel> out;
  for (const One& one : models) {
    out.push_back({.facts = one.facts,
                   .decoder = one.served.decoder.get(),
                   .predictor = one.served.predictor.get(),
                   .tokenizer = one.served.tokenizer.get()});
  }
  return out;
}

}  // namespace mnemon
