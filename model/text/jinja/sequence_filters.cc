// SPDX-License-Identifier: MIT
// Filters of sequences and dictionaries. Those that are generators in jinja2 yield
// their elements one by one here too, and once.
#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "model/text/jinja/filters.h"
#include "model/text/jinja/methods.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/python_text.h"
#include "model/text/jinja/tests.h"

namespace mnemon::jinja {

absl::StatusOr<Value> AtPath(Runtime& runtime, const Value& value, const Value& path,
                             const std::optional<Value>& otherwise) {
  if (path.none()) return value;
  std::vector<Value> steps = {path};
  if (path.text() != nullptr) {
    steps.clear();
    for (const std::string_view step : Split(path.text()->bytes, ".", -1, false)) {
      const bool number =
          !step.empty() && step.size() < 19 &&
          step.find_first_not_of("0123456789") == std::string_view::npos;
      steps.push_back(number ? Value(static_cast<Int>(std::stoll(std::string(step))))
                             : Value::OfText(std::string(step)));
    }
  }
  Value found = value;
  for (const Value& step : steps) {
    MNEMON_ASSIGN_OR_RETURN(found, Item(runtime, found, step));
    if (found.undefined() && otherwise.has_value() && !otherwise->none()) {
      found = *otherwise;
    }
  }
  return found;
}

namespace {

// Key for sorting and uniqueness: lower case for strings.
absl::StatusOr<Value> CaseKey(Runtime& runtime, const Value& value,
                              bool case_sensitive) {
  if (case_sensitive || value.text() == nullptr) return value;
  MNEMON_RETURN_IF_ERROR(
      runtime.Spend(static_cast<int64_t>(value.text()->bytes.size()) / kCaseStepBytes));
  return runtime.NewText(Lower(value.text()->bytes));
}

struct Keyed {
  Value key, value;
};

absl::StatusOr<Value> Sorted(Runtime& runtime, std::vector<Keyed> items, bool reverse) {
  absl::Status fault;
  const auto less = [&](const Keyed& a, const Keyed& b) {
    if (!fault.ok()) return false;
    const auto in_order = Ordered(runtime, "<", a.key, b.key);
    fault.Update(in_order.status());
    return in_order.ok() && *in_order;
  };
  // Equal elements keep their order in both directions.
  if (reverse) std::reverse(items.begin(), items.end());
  std::stable_sort(items.begin(), items.end(), less);
  MNEMON_RETURN_IF_ERROR(fault);
  if (reverse) std::reverse(items.begin(), items.end());
  std::vector<Value> values;
  for (Keyed& item : items) values.push_back(std::move(item.value));
  return runtime.NewSequence(std::move(values));
}

absl::StatusOr<Value> SortFilter(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"reverse", "case_sensitive", "attribute"}));
  MNEMON_ASSIGN_OR_RETURN(const std::vector<Value> values, Collect(runtime, value));
  const bool case_sensitive = TruthOr(bound[1], false);
  // Several attributes, separated by commas.
  std::vector<Value> paths = {bound[2].value_or(Value(None()))};
  if (paths[0].text() != nullptr) {
    MNEMON_ASSIGN_OR_RETURN(
        const Value list,
        ListOfTexts(runtime, Split(bound[2]->text()->bytes, ",", -1, false)));
    paths = list.sequence()->items;
  }
  std::vector<Keyed> items;
  for (const Value& item : values) {
    std::vector<Value> keys;
    for (const Value& path : paths) {
      MNEMON_ASSIGN_OR_RETURN(const Value at, AtPath(runtime, item, path));
      MNEMON_ASSIGN_OR_RETURN(Value key, CaseKey(runtime, at, case_sensitive));
      keys.push_back(std::move(key));
    }
    MNEMON_ASSIGN_OR_RETURN(Value key, runtime.NewSequence(std::move(keys)));
    items.push_back({std::move(key), item});
  }
  return Sorted(runtime, std::move(items), TruthOr(bound[0], false));
}

absl::StatusOr<Value> DictSortFilter(Runtime& runtime, const Value& value,
                                     const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"case_sensitive", "by", "reverse"}));
  MNEMON_ASSIGN_OR_RETURN(const std::string by, TextOr(bound[1], "key", "by"));
  if (by != "key" && by != "value") return Fail("by must be key or value");
  if (value.dict() == nullptr) {
    return Fail("dictsort takes a dict, not a ", value.type());
  }
  std::vector<Keyed> items;
  for (const auto& [key, held] : value.dict()->entries) {
    MNEMON_ASSIGN_OR_RETURN(Value compared, CaseKey(runtime, by == "key" ? key : held,
                                                    TruthOr(bound[0], false)));
    MNEMON_ASSIGN_OR_RETURN(Value pair,
                            runtime.NewSequence({key, held}, Sequence::kTuple));
    items.push_back({std::move(compared), std::move(pair)});
  }
  return Sorted(runtime, std::move(items), TruthOr(bound[2], false));
}

absl::StatusOr<Value> UniqueFilter(Runtime& runtime, const Value& value,
                                   const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"case_sensitive", "attribute"}));
  MNEMON_ASSIGN_OR_RETURN(const auto source, Iterate(runtime, value));
  return runtime.NewIterator(
      [&runtime, source, path = bound[1].value_or(Value(None())),
       case_sensitive = TruthOr(bound[0], false),
       seen = absl::flat_hash_set<std::string>()]() mutable
      -> absl::StatusOr<std::optional<Value>> {
        while (true) {
          MNEMON_ASSIGN_OR_RETURN(std::optional<Value> item, source->next());
          if (!item.has_value()) return item;
          MNEMON_ASSIGN_OR_RETURN(const Value at, AtPath(runtime, *item, path));
          MNEMON_ASSIGN_OR_RETURN(const Value key,
                                  CaseKey(runtime, at, case_sensitive));
          MNEMON_ASSIGN_OR_RETURN(const auto name, runtime.LookUpKey(key));
          if (!name.has_value()) return Fail("unique of tuples is not supported");
          if (seen.insert(*name).second) return item;
        }
      },
      source->depth);
}

template <bool kLargest>
absl::StatusOr<Value> ExtremeFilter(Runtime& runtime, const Value& value,
                                    const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"case_sensitive", "attribute"}));
  MNEMON_ASSIGN_OR_RETURN(const std::vector<Value> values, Collect(runtime, value));
  std::optional<Keyed> best;
  for (const Value& item : values) {
    MNEMON_ASSIGN_OR_RETURN(const Value at,
                            AtPath(runtime, item, bound[1].value_or(Value(None()))));
    MNEMON_ASSIGN_OR_RETURN(Value key, CaseKey(runtime, at, TruthOr(bound[0], false)));
    if (best.has_value()) {
      MNEMON_ASSIGN_OR_RETURN(const bool better,
                              Ordered(runtime, kLargest ? ">" : "<", key, best->key));
      if (!better) continue;
    }
    best = Keyed{std::move(key), item};
  }
  return best.has_value() ? best->value
                          : Value::Missing("no aggregated item, the sequence is empty");
}

absl::StatusOr<Value> SumFilter(Runtime& runtime, const Value& value,
                                const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"attribute", "start"}));
  MNEMON_ASSIGN_OR_RETURN(const std::vector<Value> values, Collect(runtime, value));
  Value total = bound[1].value_or(Value(Int{0}));
  if (total.text() != nullptr) return Fail("sum does not take strings");
  for (const Value& item : values) {
    MNEMON_ASSIGN_OR_RETURN(const Value at,
                            AtPath(runtime, item, bound[0].value_or(Value(None()))));
    MNEMON_ASSIGN_OR_RETURN(total, Calculate(runtime, "+", total, at));
  }
  return total;
}

absl::StatusOr<Value> JoinFilter(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"d", "attribute"}));
  MNEMON_ASSIGN_OR_RETURN(const std::string between,
                          Str(runtime, bound[0].value_or(Value::OfText(""))));
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Iterator> source, Iterate(runtime, value));
  if (!bound[1].has_value() || bound[1]->none()) {
    return JoinTexts(runtime, between, *source, /*strict=*/false);
  }
  Iterator at_path;
  at_path.next = [&]() -> absl::StatusOr<std::optional<Value>> {
    MNEMON_ASSIGN_OR_RETURN(const std::optional<Value> item, source->next());
    if (!item.has_value()) return std::nullopt;
    return AtPath(runtime, *item, *bound[1]);
  };
  return JoinTexts(runtime, between, at_path, /*strict=*/false);
}

absl::StatusOr<Value> FirstFilter(Runtime& runtime, const Value& value,
                                  const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  MNEMON_ASSIGN_OR_RETURN(const auto source, Iterate(runtime, value));
  MNEMON_ASSIGN_OR_RETURN(std::optional<Value> first, source->next());
  return first.has_value() ? *std::move(first)
                           : Value::Missing("no first item, the sequence is empty");
}

absl::StatusOr<Value> LastFilter(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (value.iterator() != nullptr || !IsIterable(value)) {
    return Fail("last of a ", value.type());
  }
  if (value.text() != nullptr && value.text()->length > 0) {
    return Slice(runtime, value, Value(Int{-1}), std::nullopt, std::nullopt);
  }
  MNEMON_ASSIGN_OR_RETURN(const std::vector<Value> items, Collect(runtime, value));
  return items.empty() ? Value::Missing("no last item, the sequence is empty")
                       : items.back();
}

absl::StatusOr<Value> ReverseFilter(Runtime& runtime, const Value& value,
                                    const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (value.text() != nullptr) {
    return Slice(runtime, value, std::nullopt, std::nullopt, Value(Int{-1}));
  }
  MNEMON_ASSIGN_OR_RETURN(std::vector<Value> items, Collect(runtime, value));
  std::reverse(items.begin(), items.end());
  const bool generator = value.iterator() != nullptr;
  MNEMON_ASSIGN_OR_RETURN(const Value list, runtime.NewSequence(std::move(items)));
  if (generator) return list;
  MNEMON_ASSIGN_OR_RETURN(const auto source, Iterate(runtime, list));
  return Value(source);
}

absl::StatusOr<Value> ListFilter(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  MNEMON_ASSIGN_OR_RETURN(std::vector<Value> items, Collect(runtime, value));
  return runtime.NewSequence(std::move(items));
}

absl::StatusOr<Value> ItemsFilter(Runtime& runtime, const Value& value,
                                  const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (value.dict() == nullptr && !value.undefined()) {
    return Fail("items takes a dict, not a ", value.type());
  }
  return runtime.NewIterator(
      [&runtime, value,
       at = size_t{0}]() mutable -> absl::StatusOr<std::optional<Value>> {
        if (value.undefined() || at == value.dict()->entries.size())
          return std::nullopt;
        const auto& [key, held] = value.dict()->entries[at++];
        return runtime.NewSequence({key, held}, Sequence::kTuple);
      },
      value.depth() + 1);
}

// An iterator without elements.
absl::StatusOr<Value> Nothing(Runtime& runtime) {
  return runtime.NewIterator(
      []() -> absl::StatusOr<std::optional<Value>> { return std::nullopt; }, 0);
}

// The filter map, for an attribute or with another filter.
absl::StatusOr<Value> MapFilter(Runtime& runtime, const Value& value,
                                const Arguments& arguments) {
  std::optional<Value> attribute, otherwise;
  if (arguments.positional.empty()) {
    MNEMON_ASSIGN_OR_RETURN(const auto bound,
                            Bind(arguments, {"attribute", "default"}, 1));
    attribute = bound[0];
    otherwise = bound[1];
  }
  if (!value.truth()) return Nothing(runtime);
  MNEMON_ASSIGN_OR_RETURN(const auto source, Iterate(runtime, value));
  Arguments rest = arguments;
  std::string name;
  if (!attribute.has_value()) {
    MNEMON_ASSIGN_OR_RETURN(name, TextOr(rest.positional[0], "", "the filter"));
    rest.positional.erase(rest.positional.begin());
  }
  return runtime.NewIterator(
      [&runtime, source, attribute, otherwise, name,
       rest]() -> absl::StatusOr<std::optional<Value>> {
        MNEMON_ASSIGN_OR_RETURN(const std::optional<Value> item, source->next());
        if (!item.has_value()) return std::nullopt;
        if (attribute.has_value()) {
          return AtPath(runtime, *item, *attribute, otherwise);
        }
        return ApplyFilter(runtime, name, *item, rest);
      },
      source->depth);
}

// select and reject, and selectattr and rejectattr.
template <bool kByAttribute, bool kWanted>
absl::StatusOr<Value> SelectFilter(Runtime& runtime, const Value& value,
                                   const Arguments& arguments) {
  if (!value.truth()) return Nothing(runtime);
  MNEMON_ASSIGN_OR_RETURN(const auto source, Iterate(runtime, value));
  Arguments rest = arguments;
  Value path(None{});
  if (kByAttribute) {
    if (rest.positional.empty()) return Fail("lacks the name of the attribute");
    path = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
  }
  std::optional<std::string> name;
  if (!rest.positional.empty()) {
    MNEMON_ASSIGN_OR_RETURN(name, TextOr(rest.positional[0], "", "the test"));
    rest.positional.erase(rest.positional.begin());
  }
  return runtime.NewIterator(
      [&runtime, source, path, name, rest]() -> absl::StatusOr<std::optional<Value>> {
        while (true) {
          MNEMON_ASSIGN_OR_RETURN(std::optional<Value> item, source->next());
          if (!item.has_value()) return item;
          MNEMON_ASSIGN_OR_RETURN(const Value at, AtPath(runtime, *item, path));
          bool holds = at.truth();
          if (name.has_value()) {
            MNEMON_ASSIGN_OR_RETURN(holds, ApplyTest(runtime, *name, at, rest));
          }
          if (holds == kWanted) return item;
        }
      },
      source->depth);
}

struct SequenceFilterEntry {
  std::string_view name;
  Filter call;
};

constexpr SequenceFilterEntry kSequenceFilters[] = {
    {"dictsort", DictSortFilter},
    {"first", FirstFilter},
    {"items", ItemsFilter},
    {"join", JoinFilter},
    {"last", LastFilter},
    {"list", ListFilter},
    {"map", MapFilter},
    {"max", ExtremeFilter<true>},
    {"min", ExtremeFilter<false>},
    {"reject", SelectFilter<false, false>},
    {"rejectattr", SelectFilter<true, false>},
    {"reverse", ReverseFilter},
    {"select", SelectFilter<false, true>},
    {"selectattr", SelectFilter<true, true>},
    {"sort", SortFilter},
    {"sum", SumFilter},
    {"unique", UniqueFilter},
};

}  // namespace

Filter FindSequenceFilter(std::string_view name) {
  for (const SequenceFilterEntry& entry : kSequenceFilters) {
    if (entry.name == name) return entry.call;
  }
  return nullptr;
}

}  // namespace mnemon::jinja
