// SPDX-License-Identifier: MIT
#include "server/store/synced_number.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

namespace mnemon {
namespace {

struct Content {
  uint64_t number;
  uint64_t check;
};

uint64_t CheckOf(uint64_t number) { return ~(number * 0x9e3779b97f4a7c15u); }

}  // namespace

uint64_t SyncedNumber::Read() const {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  Content content{};
  if (!file.valid() ||
      ::pread(file.get(), &content, sizeof content, 0) != sizeof content) {
    return 0;
  }
  return content.check == CheckOf(content.number) ? content.number : 0;
}

void SyncedNumber::Write(uint64_t number) {
  if (!file_.valid()) {
    file_ = Descriptor(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  }
  if (!file_.valid()) return;
  const Content content{number, CheckOf(number)};
  // One page: whole or not there for whoever reads it after a kill.
  if (::pwrite(file_.get(), &content, sizeof content, 0) != sizeof content)
    file_.Close();
}

}  // namespace mnemon
