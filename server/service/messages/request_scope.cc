// SPDX-License-Identifier: MIT
#include "server/service/messages/request_scope.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace mnemon {

std::string RequestPath(const std::string& field, const RequestScope& scope) {
  const size_t name_size = std::min(field.find('['), field.size());
  const std::string_view name = std::string_view(field).substr(0, name_size);
  for (const FieldPath& path : scope.paths) {
    if (path.engine == name) return StrCat(path.request, field.substr(name_size));
  }
  return field;
}

absl::Status FieldNotAvailable(std::string_view field) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   StrCat(field, " is not available in this version; leave it unset"),
                   {.reason = "FIELD_UNIMPLEMENTED", .field = std::string(field)});
}

absl::Status MethodNotAvailable(std::string_view method) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   StrCat(method, " is not available in this version"),
                   {.reason = "METHOD_UNIMPLEMENTED",
                    .metadata = {{"method", std::string(method)}}});
}

}  // namespace mnemon
