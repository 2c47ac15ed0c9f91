// SPDX-License-Identifier: MIT
#include "model/load/sequence_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/process/process.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr char kLibrary[] = "libmnemon_sequence.so";

absl::Status Unavailable(std::string_view fault) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   StrCat("this model needs its sequence form, and ", fault,
                          "; install it, or use --decoder step and --device cpu"),
                   {.reason = "NO_SEQUENCE_MODULE"});
}

absl::StatusOr<const SequenceModule*> Load() {
  std::error_code failed;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  const std::vector<std::filesystem::path> places = {
      program / kLibrary, program.parent_path() / "lib" / "mnemon" / kLibrary};
  for (const std::filesystem::path& place : places) {
    if (!std::filesystem::exists(place, failed)) continue;
    // RTLD_LOCAL, since its libraries' symbols must not replace those of the program.
    void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return Unavailable(
          StrCat(Quoted(place.string()), " cannot be loaded: ", dlerror()));
    }
    const auto entry =
        reinterpret_cast<SequenceModuleEntry>(dlsym(library, kSequenceModuleEntry));
    const SequenceModule* const module =
        entry == nullptr ? nullptr : entry(VersionText("sequence module", "").c_str());
    if (module != nullptr) return module;
    return Unavailable(StrCat(Quoted(place.string()), " is not of this build"));
  }
  return Unavailable(StrCat("neither ", Quoted(places[0].string()), " nor ",
                            Quoted(places[1].string()), " is there"));
}

}  // namespace

absl::StatusOr<const SequenceModule*> LoadSequenceModule() {
  static std::mutex mutex;
  static const SequenceModule* loaded = nullptr;  // guarded by mutex
  const std::lock_guard lock(mutex);
  if (loaded == nullptr) {
    absl::StatusOr<const SequenceModule*> found = Load();
    if (!found.ok()) return found.status();
    loaded = *found;
  }
  return loaded;
}

}  // namespace mnemon
