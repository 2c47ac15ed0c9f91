// SPDX-License-Identifier: MIT
// What the parts that keep sessions in a store share.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/durability/bounded_reads.h"
#include "server/durability/session_snapshots.h"
#include "server/requests/request.h"
#include "server/run/engine_context.h"
#include "server/run/model_runner.h"
#include "server/sessions/session.h"
#include "server/store/session_store.h"

namespace mnemon {

// Safe for concurrent use once the runners are set.
struct StoreContext {
  // `its_engine` and `its_store` outlive it. Throws std::system_error.
  StoreContext(const EngineContext& its_engine, SessionStore& its_store,
               std::vector<EngineModel> its_models)
      : engine(its_engine),
        store(its_store),
        reads(its_store, its_engine.waiters),
        models(std::move(its_models)) {}

  // What holds the place is on threads that end before the engine's context does.
  SnapshotPlace PlaceOf(size_t model) const {
    return {.runner = runners[model], .context = engine.shared_from_this()};
  }
  // Held by who reads the history of the session, or unloads it.
  std::mutex& LoadingOf(const Session& session) {
    return loading[std::hash<std::string>()(session.id) % loading.size()];
  }

  const EngineContext& engine;
  SessionStore& store;
  BoundedReads reads;                     // of one session, for whom others wait
  const std::vector<EngineModel> models;  // in the order of the engine
  // One for each model, null for a predictor. Set once, before sessions are recovered.
  std::vector<std::shared_ptr<ModelRunner>> runners;
  std::array<std::mutex, 16> loading;  // LoadingOf
};

}  // namespace mnemon
