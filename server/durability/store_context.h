// SPDX-License-Identifier: MIT
// The parts that keep sessions in a store share this.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "server/durability/bounded_store.h"
#include "server/durability/session_snapshots.h"
#include "server/requests/engine_model.h"
#include "server/run/engine_context.h"
#include "server/run/model_runner.h"
#include "server/sessions/session.h"
#include "server/store/session_store.h"

namespace mnemon {

// Safe for concurrent use once the runners are set.
struct StoreContext {
  // `its_engine` and `its_store` outlive it. Throws std::system_error when there are no
  // threads.
  StoreContext(const EngineContext& its_engine, SessionStore& its_store,
               std::vector<EngineModel> its_models)
      : engine(its_engine),
        store(its_store, its_engine.waiters),
        models(std::move(its_models)) {}

  // What holds the place is on threads that end before the engine's context does.
  SnapshotPlace PlaceOf(size_t model) const {
    return {.runner = runners[model], .context = engine.shared_from_this()};
  }
  // An empty session without a name, for the copy that a snapshot is made of.
  std::shared_ptr<Session> MakeCopy(size_t model) const {
    return std::make_shared<Session>("", model, engine.memory, &EngineMemory::prompts);
  }

  const EngineContext& engine;
  BoundedStore store;
  const std::vector<EngineModel> models;  // in the order of the engine
  // One for each model, null for a predictor. Set once, before sessions are recovered.
  std::vector<std::shared_ptr<ModelRunner>> runners;
};

}  // namespace mnemon
