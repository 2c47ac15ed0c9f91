// SPDX-License-Identifier: MIT
// The playground: a page that talks to the models of this server.
#pragma once

#include "server/http/http_message.h"

namespace mnemon {

// One self-contained page, made of what the folder playground holds, with a policy
// under which a browser loads nothing else, and calls this server alone.
HttpResponse PlaygroundPage();

}  // namespace mnemon
