// tf.train.Example without protobuf: from the bytes of records straight into batches.
//
// The wire format is read as TensorFlow's own fast parser reads it (core/util/example_proto_fast_parsing.cc): in an entry
// of the map the key comes before the value, of equal keys the last counts, an empty value counts as none, and unknown
// features are skipped. Stricter in one thing: a length that reaches beyond what holds it is an error.

#pragma once

#include <algorithm>

#include "failure.h"

namespace tfhet::records {

// A message or a field of bytes; what takes from it moves its beginning.
struct Span {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;

  size_t size() const { return static_cast<size_t>(end - at); }
  bool empty() const { return at == end; }

  bool varint(uint64_t* value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at == end) return false;
      const uint8_t byte = *at++;
      if (shift < 64) result |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        *value = result;
        return true;
      }
    }
    return false;
  }
  bool bytes(size_t count, Span* value) {
    if (size() < count) return false;
    const Span taken{at, at + count};
    at += count;
    *value = taken;  // which may be this one
    return true;
  }
  bool delimited(Span* value) {
    uint64_t length = 0;
    return varint(&length) && length <= size() && bytes(length, value);
  }
  bool tag(uint8_t wanted) {
    if (empty() || *at != wanted) return false;
    ++at;
    return true;
  }
  // A field that means nothing here.
  bool skip() {
    uint64_t tag = 0, number = 0;
    Span value;
    if (!varint(&tag) || tag >> 3 == 0 || tag > UINT32_MAX) return false;
    switch (tag & 7) {
      case 0:
        return varint(&number);
      case 1:
        return bytes(8, &value);
      case 2:
        return delimited(&value);
      case 5:
        return bytes(4, &value);
    }
    return false;
  }
};

constexpr uint8_t delimited(int field) { return static_cast<uint8_t>(field << 3 | 2); }
inline constexpr uint8_t kVarint = 1 << 3, kFixed32 = 1 << 3 | 5;

// ---------------------------------------------------------------- features

enum Kind { kRaw, kInt64, kFloat, kBytes };
inline constexpr int kListField[] = {1, 3, 2, 1};  // of tf.train.Feature
inline constexpr const char* kListName[] = {"bytes", "int64", "float", "bytes"};

struct Feature {
  Kind kind;
  size_t size;  // bytes of a raw one, else values
  std::string name;
};

// "KIND SIZE LENGTH:NAME" one after another; KIND as Kind counts.
inline std::vector<Feature> features_of(const std::string& layout) {
  std::vector<Feature> features;
  size_t at = 0;
  const auto number = [&](char stop) {
    uint64_t value = 0;
    const size_t first = at;
    while (at < layout.size() && layout[at] >= '0' && layout[at] <= '9' && at < first + 15)
      value = value * 10 + static_cast<uint64_t>(layout[at++] - '0');
    if (at == first || at == layout.size() || layout[at] != stop) invalid("not a layout: " + layout);
    ++at;
    return value;
  };
  while (at < layout.size()) {
    const uint64_t kind = number(' '), size = number(' '), length = number(':');
    if (kind > kBytes || size < 1 || length > layout.size() - at) invalid("not a layout: " + layout);
    features.push_back({static_cast<Kind>(kind), size, layout.substr(at, length)});
    at += length;
  }
  return features;
}

// Memory for the values of one feature, [rows, size]: uint8, int64 or float. Of a feature of byte strings: their addresses in
// the records, and their lengths.
struct Column {
  void* values = nullptr;
  int64_t* lengths = nullptr;
};

// Writes the features of serialised Examples into columns, row after row.
class Parser {
 public:
  Parser(const std::vector<Feature>& features, std::vector<Column> columns)
      : features_(features), columns_(std::move(columns)), found_(features.size()) {}

  // Keeps no values: for `fits`.
  explicit Parser(const std::vector<Feature>& features) : Parser(features, std::vector<Column>(features.size())) {}

  bool fits(Span record) {
    try {
      set(0, record);
      return true;
    } catch (const Failure&) {
      return false;
    }
  }

  // `record` is one serialised Example.
  void set(int64_t row, Span record) {
    std::fill(found_.begin(), found_.end(), Span{});
    if (!find(record, row))
      throw Failure{Code::invalid_argument, "example " + std::to_string(row) + " of the block is no tf.train.Example", row};
    for (size_t i = 0; i < features_.size(); ++i) {
      if (found_[i].empty()) refuse(i, row, "is missing");
      Span value = found_[i], list;
      value.at += 1;  // the tag was seen by `keep`
      const size_t size = features_[i].size;
      size_t count = 0;
      bool whole = value.delimited(&list);
      if (whole) switch (features_[i].kind) {
          case kRaw:
            whole = raw(list, place<uint8_t>(i, row), i, row);
            count = size;
            break;
          case kInt64:
            whole = integers(list, place<int64_t>(i, row), size, &count);
            break;
          case kFloat:
            whole = floats(list, place<float>(i, row), size, &count);
            break;
          case kBytes:
            whole = strings(list, place<const uint8_t*>(i, row), lengths(i, row), size, &count);
        }
      if (!whole) refuse(i, row, "is broken");
      if (count != size) refuse(i, row, "has " + std::to_string(count) + " values, not " + std::to_string(size));
    }
  }

 private:
  [[noreturn]] void refuse(size_t feature, int64_t row, const std::string& what) const {
    throw Failure{Code::invalid_argument,
                  "feature " + features_[feature].name + " of example " + std::to_string(row) + " of the block " + what, row};
  }

  // Null if nothing is to be kept.
  template <class T>
  T* place(size_t feature, int64_t row) const {
    T* const values = static_cast<T*>(columns_[feature].values);
    return values ? values + row * features_[feature].size : nullptr;
  }
  int64_t* lengths(size_t feature, int64_t row) const {
    int64_t* const lengths = columns_[feature].lengths;
    return lengths ? lengths + row * features_[feature].size : nullptr;
  }

  bool find(Span record, int64_t row) {
    while (!record.empty()) {
      Span features, entry;
      if (!record.tag(delimited(1))) {
        if (!record.skip()) return false;
        continue;
      }
      if (!record.delimited(&features)) return false;
      while (!features.empty()) {
        Span key, value;
        if (!features.tag(delimited(1)) || !features.delimited(&entry) || !entry.tag(delimited(1)) || !entry.delimited(&key) ||
            !entry.tag(delimited(2)) || !entry.delimited(&value) || !entry.empty())
          return false;
        keep(key, value, row);
      }
    }
    return true;
  }

  void keep(Span key, Span value, int64_t row) {
    for (size_t i = 0; i < features_.size(); ++i) {
      const Feature& feature = features_[i];
      if (key.size() != feature.name.size() || std::memcmp(key.at, feature.name.data(), key.size()) != 0) continue;
      if (value.empty()) return;
      if (*value.at != delimited(kListField[feature.kind]))
        refuse(i, row, std::string("is no list of ") + kListName[feature.kind]);
      found_[i] = value;
      return;
    }
  }

  bool raw(Span list, uint8_t* to, size_t feature, int64_t row) const {
    const size_t size = features_[feature].size;
    Span value;
    if (!list.tag(delimited(1)) || !list.delimited(&value) || !list.empty()) return false;
    if (value.size() != size)
      refuse(feature, row, "has " + std::to_string(value.size()) + " bytes, not " + std::to_string(size));
    if (to) std::memcpy(to, value.at, size);
    return true;
  }

  static bool integers(Span list, int64_t* to, size_t size, size_t* count) {
    const bool packed = list.tag(delimited(1));
    if (packed && !list.delimited(&list)) return false;
    for (; !list.empty(); ++*count) {
      uint64_t value = 0;
      if ((!packed && !list.tag(kVarint)) || !list.varint(&value)) return false;
      if (to && *count < size) to[*count] = static_cast<int64_t>(value);
    }
    return true;
  }

  static bool floats(Span list, float* to, size_t size, size_t* count) {
    const bool packed = list.tag(delimited(1));
    if (packed && !list.delimited(&list)) return false;
    for (; !list.empty(); ++*count) {
      Span value;
      if ((!packed && !list.tag(kFixed32)) || !list.bytes(sizeof(float), &value)) return false;
      if (to && *count < size) std::memcpy(to + *count, value.at, sizeof(float));
    }
    return true;
  }

  static bool strings(Span list, const uint8_t** to, int64_t* lengths, size_t size, size_t* count) {
    for (; !list.empty(); ++*count) {
      Span value;
      if (!list.tag(delimited(1)) || !list.delimited(&value)) return false;
      if (!to || *count >= size) continue;
      to[*count] = value.at;
      lengths[*count] = static_cast<int64_t>(value.size());
    }
    return true;
  }

  const std::vector<Feature>& features_;
  std::vector<Column> columns_;
  std::vector<Span> found_;
};

}  // namespace tfhet::records
