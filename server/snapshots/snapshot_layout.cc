// SPDX-License-Identifier: MIT
#include "server/snapshots/snapshot_layout.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "xxhash.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr size_t kMaxText = 256;
constexpr size_t kMaxSession = size_t{64} << 10;
constexpr int kMaxSessionDepth = 16;
constexpr size_t kMaxEntries = 4096;
constexpr size_t kMaxRank = 8;
// Root, entries, entry, shape.
constexpr int kMetadataDepth = 4;
// Of each entry: itself, six keys and values, sizes; and of the root.
constexpr int64_t kMaxNodes = kMaxEntries * (1 + 12 + kMaxRank) + 17;

absl::Status CheckText(const std::string& text, std::string_view member) {
  const auto printable = [](char c) { return c >= 0x20 && c <= 0x7e; };
  if (text.size() <= kMaxText && std::all_of(text.begin(), text.end(), printable)) {
    return absl::OkStatus();
  }
  return InvalidField(std::string(member),
                      StrCat(member, " must be printable ASCII of at most ", kMaxText,
                             " bytes, found ", Quoted(text)));
}

absl::Status CheckSession(const std::string& session) {
  if (session.size() > kMaxSession) {
    return InvalidField("session", StrCat("session has ", session.size(),
                                          " bytes, at most ", kMaxSession, " may be"));
  }
  const auto parsed = ParseJson(session, "session", {.max_depth = kMaxSessionDepth});
  if (!parsed.ok())
    return InvalidField("session", std::string(parsed.status().message()));
  if (!parsed->is_object()) return InvalidField("session", "session must be an object");
  return absl::OkStatus();
}

absl::Status EntryFault(const SnapshotEntry& entry, std::string_view what) {
  return InvalidField("entries", StrCat("entry ", Quoted(entry.name), ": ", what));
}

// What the rows of a growing entry must be follows from `computed`.
absl::Status CheckRows(const SnapshotEntry& entry, int64_t computed) {
  if (entry.growth == Growth::kAppend && computed > entry.capacity) {
    return EntryFault(entry, StrCat(computed, " tokens are computed, its capacity is ",
                                    entry.capacity));
  }
  const bool grows = entry.growth != Growth::kFixed;
  const int64_t rows = grows ? std::min(entry.capacity, computed) : 0;
  const int64_t first_row = grows ? computed - rows : 0;
  if (entry.rows == rows && entry.first_row == first_row) return absl::OkStatus();
  return EntryFault(entry, StrCat("expected ", rows, " rows from ", first_row,
                                  ", found ", entry.rows, " from ", entry.first_row));
}

absl::Status CheckEntries(const SnapshotFacts& facts) {
  if (facts.entries.size() > kMaxEntries) {
    return InvalidField("entries", StrCat(facts.entries.size(), " entries, at most ",
                                          kMaxEntries, " may be"));
  }
  if (facts.entries.empty() && facts.computed != 0) {
    return InvalidField("computed", StrCat(facts.computed,
                                           " tokens are computed, but there is no "
                                           "state"));
  }
  // The rules for shapes, capacities and totals are those of a spec.
  StateSpec spec;
  std::set<std::string_view> names;
  for (const SnapshotEntry& entry : facts.entries) {
    MNEMON_RETURN_IF_ERROR(CheckText(entry.name, "entries"));
    if (entry.name.empty()) return InvalidField("entries", "an entry has no name");
    if (!names.insert(entry.name).second) return EntryFault(entry, "is there twice");
    if (entry.shape.size() > kMaxRank) {
      return EntryFault(entry, StrCat("more than ", kMaxRank, " sizes"));
    }
    spec.entries.push_back({.name = entry.name,
                            .shape = entry.shape,
                            .growth = entry.growth,
                            .capacity = entry.capacity});
  }
  if (const absl::Status valid = spec.Validate(); !valid.ok()) {
    return InvalidField("entries", std::string(valid.message()));
  }
  for (const SnapshotEntry& entry : facts.entries) {
    MNEMON_RETURN_IF_ERROR(CheckRows(entry, facts.computed));
  }
  return absl::OkStatus();
}

absl::Status Fault(std::string_view what) {
  return absl::InvalidArgumentError(StrCat("metadata: ", what));
}

// `value` is an object with these keys and no other.
absl::Status CheckKeys(const json& value, std::initializer_list<const char*> keys) {
  if (!value.is_object()) return Fault("expected an object");
  for (const char* const key : keys) {
    if (!value.contains(key)) return Fault(StrCat("missing key '", key, "'"));
  }
  if (value.size() == keys.size()) return absl::OkStatus();
  for (const auto& [key, unused] : value.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return Fault("unknown key " + Quoted(key));
    }
  }
  return absl::OkStatus();
}

absl::Status Take(json& object, const char* key, std::string& to) {
  json& value = object[key];
  if (!value.is_string()) return Fault(StrCat("'", key, "' must be a string"));
  to = std::move(value.get_ref<std::string&>());
  return absl::OkStatus();
}

absl::Status TakeNumber(const json& value, std::string_view key, int64_t& to) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return Fault(StrCat("'", key, "' must hold integers from 0 to 2^63-1"));
  }
  to = value.get<int64_t>();
  return absl::OkStatus();
}

absl::Status Take(json& object, const char* key, int64_t& to) {
  return TakeNumber(object[key], key, to);
}

absl::Status Take(json& object, const char* key, Growth& to) {
  for (const Growth growth : {Growth::kFixed, Growth::kRing, Growth::kAppend}) {
    if (object[key] != Name(growth)) continue;
    to = growth;
    return absl::OkStatus();
  }
  return Fault(StrCat("'", key, "' must be fixed, ring or append"));
}

absl::Status TakeEntry(json& object, SnapshotEntry& entry) {
  MNEMON_RETURN_IF_ERROR(
      CheckKeys(object, {"capacity", "first_row", "growth", "name", "rows", "shape"}));
  MNEMON_RETURN_IF_ERROR(Take(object, "name", entry.name));
  MNEMON_RETURN_IF_ERROR(Take(object, "growth", entry.growth));
  MNEMON_RETURN_IF_ERROR(Take(object, "capacity", entry.capacity));
  MNEMON_RETURN_IF_ERROR(Take(object, "first_row", entry.first_row));
  MNEMON_RETURN_IF_ERROR(Take(object, "rows", entry.rows));
  const json& shape = object["shape"];
  if (!shape.is_array()) return Fault("'shape' must be an array");
  for (const json& size : shape) {
    MNEMON_RETURN_IF_ERROR(TakeNumber(size, "shape", entry.shape.emplace_back()));
  }
  return absl::OkStatus();
}

}  // namespace

SnapshotChecksum ChecksumOf(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::to_array(canonical.digest);
}

int64_t SnapshotEntry::floats() const {
  int64_t product = growth == Growth::kFixed ? 1 : rows;
  for (const int64_t size : shape) product *= size;
  return product;
}

absl::Status CheckMetadata(const SnapshotFacts& facts, int64_t tokens) {
  MNEMON_RETURN_IF_ERROR(CheckText(facts.model_id, "model_id"));
  MNEMON_RETURN_IF_ERROR(CheckText(facts.numerics_id, "numerics_id"));
  MNEMON_RETURN_IF_ERROR(CheckText(facts.architecture, "architecture"));
  MNEMON_RETURN_IF_ERROR(CheckText(facts.spec_hash, "spec_hash"));
  MNEMON_RETURN_IF_ERROR(CheckSession(facts.session));
  if (facts.computed < 0 || facts.computed > tokens) {
    return InvalidField("computed",
                        StrCat(facts.computed, " of ", tokens, " tokens are computed"));
  }
  return CheckEntries(facts);
}

int64_t StateFloats(const SnapshotFacts& facts) {
  int64_t sum = 0;
  for (const SnapshotEntry& entry : facts.entries) sum += entry.floats();
  return sum;
}

std::string FormatMetadata(const SnapshotFacts& facts, int64_t tokens) {
  json entries = json::array();
  for (const SnapshotEntry& entry : facts.entries) {
    entries.push_back({{"capacity", entry.capacity},
                       {"first_row", entry.first_row},
                       {"growth", Name(entry.growth)},
                       {"name", entry.name},
                       {"rows", entry.rows},
                       {"shape", entry.shape}});
  }
  // The library sorts keys.
  return json{{"architecture", facts.architecture}, {"computed", facts.computed},
              {"entries", std::move(entries)},      {"model_id", facts.model_id},
              {"numerics_id", facts.numerics_id},   {"session", facts.session},
              {"spec_hash", facts.spec_hash},       {"tokens", tokens}}
      .dump();
}

absl::StatusOr<SnapshotHeader> ParseMetadata(std::string_view text) {
  MNEMON_ASSIGN_OR_RETURN(
      json root, ParseJson(text, "metadata",
                           {.max_depth = kMetadataDepth, .max_nodes = kMaxNodes}));
  SnapshotHeader header;
  MNEMON_RETURN_IF_ERROR(
      CheckKeys(root, {"architecture", "computed", "entries", "model_id", "numerics_id",
                       "session", "spec_hash", "tokens"}));
  MNEMON_RETURN_IF_ERROR(Take(root, "model_id", header.model_id));
  MNEMON_RETURN_IF_ERROR(Take(root, "numerics_id", header.numerics_id));
  MNEMON_RETURN_IF_ERROR(Take(root, "architecture", header.architecture));
  MNEMON_RETURN_IF_ERROR(Take(root, "spec_hash", header.spec_hash));
  MNEMON_RETURN_IF_ERROR(Take(root, "session", header.session));
  MNEMON_RETURN_IF_ERROR(Take(root, "tokens", header.tokens));
  MNEMON_RETURN_IF_ERROR(Take(root, "computed", header.computed));
  json& entries = root["entries"];
  if (!entries.is_array()) return Fault("'entries' must be an array");
  for (json& entry : entries) {
    MNEMON_RETURN_IF_ERROR(TakeEntry(entry, header.entries.emplace_back()));
  }
  MNEMON_RETURN_IF_ERROR(CheckMetadata(header, header.tokens));
  return header;
}

}  // namespace mnemon
