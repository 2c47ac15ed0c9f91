// SPDX-License-Identifier: MIT
#include "base/files/json.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/files/file_kind.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using nlohmann::json;

// Input iterator that stores its progress where the handler finds it: the parser gives
// no positions to handlers of keys and values.
class TrackedInput {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedInput(const char* at, const char** progress) : at_(at), progress_(progress) {}
  reference operator*() const { return *at_; }
  TrackedInput& operator++() {
    *progress_ = ++at_;
    return *this;
  }
  bool operator==(const TrackedInput& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedInput& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** progress_;
};

// Builds the value without recursion: open containers are a stack of pointers, which
// stay valid because a container grows only while it is the innermost open one.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  explicit StrictBuilder(const JsonLimits& limits) : limits_(limits) {}

  json TakeRoot() { return std::move(root_); }
  const std::string& fault() const { return fault_; }
  size_t fault_position() const { return fault_position_; }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override {
    return Add(value) != nullptr;
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(value) != nullptr;
  }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return Fail("binary value"); }
  bool start_object(size_t) override { return Open(json::object()); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (!Count()) return false;
    if (open_.back()->contains(name)) return Fail("duplicate key " + Quoted(name));
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& fault) override {
    fault_position_ = position;
    return Fail(DescribeJsonFault(fault));
  }

 private:
  bool Fail(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }

  bool Count() {
    if (++nodes_ <= limits_.max_nodes) return true;
    return Fail(StrCat("more than ", limits_.max_nodes, " values"));
  }

  json* Add(json value) {
    if (!Count()) return nullptr;
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[std::exchange(key_, {})] = std::move(value));
  }

  bool Open(json container) {
    if (open_.size() >= static_cast<size_t>(limits_.max_depth)) {
      return Fail(StrCat("nested deeper than ", limits_.max_depth));
    }
    json* added = Add(std::move(container));
    if (added == nullptr) return false;
    open_.push_back(added);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  json root_;
  std::vector<json*> open_;
  std::string key_;
  int64_t nodes_ = 0;
  std::string fault_;
  size_t fault_position_ = 0;
};

}  // namespace

std::string DescribeJsonFault(const std::exception& fault) {
  std::string_view text = fault.what();
  // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error
  // while parsing value - unexpected ']'; last read: '...'; expected ...": keeps the
  // middle.
  if (const size_t end = text.find("; last read:"); end != text.npos) {
    text = text.substr(0, end);
  }
  for (const std::string_view lead : {"] ", ": "}) {
    const size_t at = text.find(lead);
    if (at != text.npos) text.remove_prefix(at + lead.size());
  }
  constexpr size_t kMost = 200;
  return EscapeControls(text.substr(0, kMost));
}

absl::StatusOr<json> ParseJson(std::string_view text, std::string_view what,
                               const JsonLimits& limits) {
  const auto error = [what, text](size_t position, std::string_view fault) {
    if (const std::optional<FileKind> kind = FindFileKind(text)) {
      return absl::InvalidArgumentError(StrCat(what, " is ", Describe(*kind)));
    }
    return absl::InvalidArgumentError(
        StrCat(what, " is not valid JSON at byte ", position, ": ", fault));
  };
  // The parser takes NUL for the end of its input and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != text.npos) return error(nul, "NUL");
  const char* progress = text.data();
  StrictBuilder builder(limits);
  const bool parsed =
      json::sax_parse(TrackedInput(text.data(), &progress),
                      TrackedInput(text.data() + text.size(), &progress), &builder);
  if (!parsed) {
    const size_t position = builder.fault_position() != 0
                                ? builder.fault_position()
                                : static_cast<size_t>(progress - text.data());
    return error(position, builder.fault());
  }
  return builder.TakeRoot();
}

}  // namespace mnemon
