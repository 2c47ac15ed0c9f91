// SPDX-License-Identifier: MIT
#include "model/decoder/introspection.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"

namespace mnemon {
namespace {

// Most bytes per layer and head in a message, besides its weights.
constexpr int64_t kReadBytes = 32;

}  // namespace

std::string NamesOf(const IntrospectionFields& fields) {
  std::vector<std::string_view> names;
  for (const IntrospectionField& one : kIntrospectionFields) {
    if (fields.*one.field) names.push_back(one.name);
  }
  return StrJoin(names, ", ");
}

int64_t BytesOf(const Introspection& introspection) {
  const size_t floats =
      introspection.hidden_state.size() + introspection.memory_reads.weights.size() +
      introspection.update_norms.size() + introspection.state_norms.size();
  return static_cast<int64_t>(sizeof(introspection) + floats * sizeof(float));
}

int64_t MostSeen(const StateSpec& spec, int64_t end) {
  if (!spec.growing()) return 0;
  // With a ring, a query may see itself as well.
  return std::min(end, spec.capacity() + 1);
}

int64_t IntrospectionBytes(const ModelDescription& model,
                           const IntrospectionFields& fields, int64_t positions) {
  constexpr int64_t kFloat = sizeof(float);
  int64_t heads = 0, fast_heads = 0;  // of all blocks of a kind
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* attention = std::get_if<Attention>(&sub.block)) {
        heads += attention->heads;
      } else if (const auto* fast = std::get_if<FastWeights>(&sub.block)) {
        fast_heads += fast->heads;
      }
    }
  }
  int64_t bytes = 0;
  if (fields.hidden_state) bytes += model.width * kFloat;
  if (fields.update_norms) bytes += fast_heads * kFloat;
  if (fields.state_norms) bytes += fast_heads * kFloat;
  if (!fields.memory_reads || heads == 0) return bytes;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (positions > (kMost - bytes) / heads / kFloat - kReadBytes) return kMost;
  return bytes + heads * (positions * kFloat + kReadBytes);
}

}  // namespace mnemon
