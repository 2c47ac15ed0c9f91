// SPDX-License-Identifier: MIT
// Opens the session store argv[1] and commits to it, synced, until it is killed. Prints
// the number of each commit that has returned.
#include <cstdio>
#include <iostream>
#include <string>

#include "server/store/session_store.h"

int main(int, char** argv) {
  using namespace mnemon;  // NOLINT: a program of its own
  auto store = OpenSessionStore(argv[1]);
  if (!store.ok()) {
    std::cerr << store.status() << '\n';
    return 1;
  }
  for (int n = 1;; ++n) {
    const std::string record = RecordExpiry(0) + std::to_string(n);
    SessionChanges changes{
        .session = {.id = "a"},
        .changes = {{.table = StoreTable::kSessions, .value = record}}};
    if (!(*store)->Commit({&changes, 1}, Sync::kYes).ok()) return 1;
    std::cout << n << std::endl;
  }
}
