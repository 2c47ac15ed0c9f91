// SPDX-License-Identifier: MIT
#include "server/http/connection_readings.h"

#include "server/http/reading_family.h"

namespace mnemon {

std::vector<prometheus::MetricFamily> ReadingsOf(const ConnectionCounts& now) {
  constexpr auto kCounter = prometheus::MetricType::Counter;
  Readings open("mnemon_connections", "Connections to the gRPC port.");
  open.Add({{"state", "open"}}, static_cast<double>(now.open));
  Readings limit("mnemon_connection_limit",
                 "Connections to the gRPC port that may be open at once.");
  limit.Add({}, static_cast<double>(now.limit));
  Readings paused(
      "mnemon_accept_paused",
      "1 while connections to the gRPC port are refused because the process "
      "has no descriptor left.");
  paused.Add({}, now.paused ? 1 : 0);
  Readings in_flight("mnemon_transport_bytes_in_flight",
                     "Bytes received of calls that have not ended.");
  in_flight.Add({}, static_cast<double>(now.in_flight_bytes));
  Readings in_flight_limit("mnemon_transport_bytes_in_flight_limit",
                           "Bytes received of calls that have not ended, at most: with "
                           "more, the connection that holds most is shut down.");
  in_flight_limit.Add({}, static_cast<double>(now.in_flight_limit));
  Readings accepted("mnemon_connections_accepted_total",
                    "Connections to the gRPC port that were accepted.", kCounter);
  accepted.Add({}, static_cast<double>(now.accepted));
  Readings refused("mnemon_connections_refused_total",
                   "Connections to the gRPC port that were refused.", kCounter);
  for (int i = 0; i < kRefusalReasons; ++i) {
    refused.Add({{"reason", Name(static_cast<RefusalReason>(i))}},
                static_cast<double>(now.refused[i]));
  }
  Readings shut_down("mnemon_connections_shut_down_total",
                     "Connections that were shut down because of what their peer sent, "
                     "because they were idle when another one needed their place, or "
                     "because the server ends.",
                     kCounter);
  for (int i = 0; i < kShutDownReasons; ++i) {
    shut_down.Add({{"reason", Name(static_cast<ShutDownReason>(i))}},
                  static_cast<double>(now.shut_down[i]));
  }
  Readings resets("mnemon_streams_reset_early_total",
                  "Streams that their peer reset before their call began.", kCounter);
  resets.Add({}, static_cast<double>(now.early_resets));
  std::vector<prometheus::MetricFamily> families;
  for (Readings* readings : {&open, &limit, &paused, &in_flight, &in_flight_limit,
                             &accepted, &refused, &shut_down, &resets}) {
    families.push_back(readings->Take());
  }
  return families;
}

}  // namespace mnemon
