// tf.train.Example without protobuf: from the bytes of records, or from a TFRecord file, straight into batches.
//
// The wire format is read as TensorFlow's own fast parser reads it (core/util/example_proto_fast_parsing.cc): in an entry
// of the map the key comes before the value, of equal keys the last counts, an empty value counts as none, and unknown
// features are skipped. Stricter in one thing: a length that reaches beyond what holds it is an error.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "op.h"

namespace {

using tfhet::Attributes;
using tfhet::Context;

// ---------------------------------------------------------------- wire format

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
constexpr uint8_t kVarint = 1 << 3, kFixed32 = 1 << 3 | 5;

// ---------------------------------------------------------------- features

enum Kind { kRaw, kInt64, kFloat, kBytes };
constexpr int kListField[] = {1, 3, 2, 1};  // of tf.train.Feature
constexpr const char* kListName[] = {"bytes", "int64", "float", "bytes"};

struct Feature {
  Kind kind;
  size_t size;  // bytes of a raw one, else values
  std::string name;
};

// "KIND SIZE LENGTH:NAME" one after another; KIND as Kind counts.
std::vector<Feature> features_of(const std::string& layout) {
  std::vector<Feature> features;
  size_t at = 0;
  const auto number = [&](char stop) {
    uint64_t value = 0;
    const size_t first = at;
    while (at < layout.size() && layout[at] >= '0' && layout[at] <= '9' && at < first + 15)
      value = value * 10 + static_cast<uint64_t>(layout[at++] - '0');
    if (at == first || at == layout.size() || layout[at] != stop) tfhet::invalid("not a layout: " + layout);
    ++at;
    return value;
  };
  while (at < layout.size()) {
    const uint64_t kind = number(' '), size = number(' '), length = number(':');
    if (kind > kBytes || size < 1 || length > layout.size() - at) tfhet::invalid("not a layout: " + layout);
    features.push_back({static_cast<Kind>(kind), size, layout.substr(at, length)});
    at += length;
  }
  return features;
}

// Where the values of the features go, row after row.
class Batch {
 public:
  Batch(const Context& context, int first_output, const std::vector<Feature>& features, int64_t rows)
      : features_(features), to_(features.size()), found_(tfhet::scratch<Span>(features.size())) {
    for (size_t i = 0; i < features.size(); ++i) {
      const int index = first_output + static_cast<int>(i);
      const tfhet::Shape shape{rows, static_cast<int64_t>(features[i].size)};
      switch (features[i].kind) {
        case kRaw:
          to_[i] = context.output<uint8_t>(index, shape);
          break;
        case kInt64:
          to_[i] = context.output<int64_t>(index, shape);
          break;
        case kFloat:
          to_[i] = context.output<float>(index, shape);
          break;
        case kBytes:
          to_[i] = context.strings(index, shape);
      }
    }
  }

  // Of nothing: for `fits`.
  explicit Batch(const std::vector<Feature>& features)
      : features_(features), to_(features.size()), found_(tfhet::scratch<Span>(features.size())) {}

  bool fits(Span record) {
    try {
      set(0, record);
      return true;
    } catch (const tfhet::Failure&) {
      return false;
    }
  }

  // `record` is one serialised Example.
  void set(int64_t row, Span record) {
    std::fill_n(found_, features_.size(), Span{});
    if (!find(record, row)) tfhet::invalid("example " + std::to_string(row) + " of the block is no tf.train.Example");
    for (size_t i = 0; i < features_.size(); ++i) {
      if (found_[i].empty()) refuse(i, row, "is missing");
      Span value = found_[i], list;
      value.at += 1;  // the tag was seen by `keep`
      const size_t size = features_[i].size;
      size_t count = 0;
      bool whole = value.delimited(&list);
      if (whole) switch (features_[i].kind) {
          case kRaw:
            whole = raw(list, static_cast<uint8_t*>(to_[i]) + row * size, i, row);
            count = size;
            break;
          case kInt64:
            whole = integers(list, static_cast<int64_t*>(to_[i]) + row * size, size, &count);
            break;
          case kFloat:
            whole = floats(list, static_cast<float*>(to_[i]) + row * size, size, &count);
            break;
          case kBytes:
            whole = strings(list, static_cast<TF_TString*>(to_[i]) + row * size, size, &count);
        }
      if (!whole) refuse(i, row, "is broken");
      if (count != size) refuse(i, row, "has " + std::to_string(count) + " values, not " + std::to_string(size));
    }
  }

 private:
  [[noreturn]] void refuse(size_t feature, int64_t row, const std::string& what) const {
    tfhet::invalid("feature " + features_[feature].name + " of example " + std::to_string(row) + " of the block " + what);
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

  // `to` is null where nothing is to be kept.
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

  static bool strings(Span list, TF_TString* to, size_t size, size_t* count) {
    for (; !list.empty(); ++*count) {
      Span value;
      if (!list.tag(delimited(1)) || !list.delimited(&value)) return false;
      if (to && *count < size) TF_TString_Copy(to + *count, reinterpret_cast<const char*>(value.at), value.size());
    }
    return true;
  }

  const std::vector<Feature>& features_;
  std::vector<void*> to_;
  Span* found_;
};

class ParseExamples {
 public:
  explicit ParseExamples(const Attributes& attributes) : features_(features_of(attributes.text("layout"))) {}

  void compute(Context& context) const {
    const auto serialized = context.input(0);
    serialized.with_rank(1, "serialized");
    const int64_t rows = serialized.shape[0];
    Batch batch(context, 0, features_, rows);
    for (int64_t row = 0; row < rows; ++row) {
      const std::string_view bytes = serialized.bytes(row);
      const auto* at = reinterpret_cast<const uint8_t*>(bytes.data());
      batch.set(row, {at, at + bytes.size()});
    }
  }

 private:
  std::vector<Feature> features_;
};

// ---------------------------------------------------------------- CRC-32C, as TFRecord files carry it

#if defined(__SSE4_2__) && defined(__x86_64__)
inline uint64_t crc_word(uint64_t crc, uint64_t word) { return __builtin_ia32_crc32di(crc, word); }
inline uint32_t crc_byte(uint32_t crc, uint8_t byte) { return __builtin_ia32_crc32qi(crc, byte); }
#else
constexpr std::array<uint32_t, 256> byte_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[byte] = crc;
  }
  return table;
}
constexpr auto kByteTable = byte_table();
inline uint32_t crc_byte(uint32_t crc, uint8_t byte) { return crc >> 8 ^ kByteTable[(crc ^ byte) & 0xff]; }
inline uint64_t crc_word(uint64_t crc, uint64_t word) {
  for (int i = 0; i < 8; ++i) crc = crc_byte(static_cast<uint32_t>(crc), static_cast<uint8_t>(word >> 8 * i));
  return crc;
}
#endif

inline uint64_t word_at(const uint8_t* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The instruction takes three cycles but can begin in each of them: three pieces of kPiece bytes at a time. `kBehind`
// moves a checksum over kPiece bytes of zeros, which is how those of the pieces become one (M. Adler's crc32c.c).
constexpr size_t kPiece = 512;

struct Behind {
  uint32_t table[4][256];
  Behind() {
    for (int place = 0; place < 4; ++place)
      for (uint32_t byte = 0; byte < 256; ++byte) {
        uint64_t crc = byte << 8 * place;
        for (size_t i = 0; i < kPiece; i += 8) crc = crc_word(crc, 0);
        table[place][byte] = static_cast<uint32_t>(crc);
      }
  }
  uint32_t operator()(uint64_t crc) const {
    return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^ table[3][crc >> 24 & 0xff];
  }
};
const Behind kBehind;

uint32_t crc32c(const uint8_t* at, size_t size) {
  uint64_t crc = 0xffffffff;
  for (; size >= 3 * kPiece; at += 3 * kPiece, size -= 3 * kPiece) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kPiece; i += 8) {
      crc = crc_word(crc, word_at(at + i));
      second = crc_word(second, word_at(at + kPiece + i));
      third = crc_word(third, word_at(at + 2 * kPiece + i));
    }
    crc = kBehind(kBehind(crc) ^ second) ^ third;
  }
  for (; size >= 8; at += 8, size -= 8) crc = crc_word(crc, word_at(at));
  for (; size > 0; ++at, --size) crc = crc_byte(static_cast<uint32_t>(crc), *at);
  return ~static_cast<uint32_t>(crc);
}

bool is_masked(uint32_t stored, const uint8_t* at, size_t size) {
  const uint32_t crc = crc32c(at, size);
  return stored == (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// ---------------------------------------------------------------- files

class File {
 public:
  explicit File(std::string path) : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) fail(errno == ENOENT ? TF_NOT_FOUND : TF_PERMISSION_DENIED, std::strerror(errno));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Fewer than `size` at the end of the file.
  size_t read(uint8_t* to, size_t size, int64_t offset) const {
    size_t done = 0;
    while (done < size) {
      const ssize_t count = pread(descriptor_, to + done, size - done, offset + static_cast<int64_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(TF_DATA_LOSS, std::strerror(errno));
      if (count == 0) break;
      done += static_cast<size_t>(count);
    }
    return done;
  }
  uint64_t size() const {
    struct stat facts{};
    if (fstat(descriptor_, &facts) != 0) fail(TF_DATA_LOSS, std::strerror(errno));
    return static_cast<uint64_t>(facts.st_size);
  }
  [[noreturn]] void fail(TF_Code code, const std::string& what) const { throw tfhet::Failure{tfhet::code_of(code), path_ + ": " + what}; }
  [[noreturn]] void broken(int64_t offset, const char* what) const {
    fail(TF_DATA_LOSS, std::string(what) + " at byte " + std::to_string(offset));
  }

 private:
  std::string path_;
  int descriptor_;
};

constexpr size_t kHeader = 12, kFooter = 4;

// As many whole records as `block_bytes` hold, from byte `offset` of a TFRecord file on, at least one; none at its end.
// They are counted from `id` on, and all are of one epoch: numbers that tf.data would need functions of its own for, which
// cost more than the reading. With `skip_bad`, records with a wrong checksum or that do not fit the features are counted
// and left out, and a file ends where it breaks off or cannot be read: there are no errors.
class ReadExamples {
 public:
  explicit ReadExamples(const Attributes& attributes)
      : features_(features_of(attributes.text("layout"))),
        block_(attributes.integer("block_bytes")),
        skip_bad_(attributes.integer("skip_bad") != 0) {
    if (block_ < static_cast<int64_t>(kHeader + kFooter)) tfhet::invalid("block_bytes is too small");
  }

  void compute(Context& context) const {
    const auto path = context.input(0), from = context.input(1), id = context.input(2), epoch = context.input(3);
    path.with_rank(0, "file");
    from.with_rank(0, "offset");
    id.with_rank(0, "id");
    epoch.with_rank(0, "epoch");
    Block block{*from.data<int64_t>(), *id.data<int64_t>(), {}};
    if (block.next < 0) tfhet::invalid("offset is negative");
    try {
      const File file{std::string(path.bytes(0))};
      while (read(file, &block) && skip_bad_ && block.rows.empty()) {
      }
    } catch (const tfhet::Failure&) {
      if (!skip_bad_) throw;
      block.next = kNowhere;
    }
    const auto rows = static_cast<int64_t>(block.rows.size());
    *context.output<int64_t>(0, {}) = block.next;
    *context.output<int64_t>(1, {}) = block.next_id;
    int64_t* ids = context.output<int64_t>(2, {rows});
    int64_t* epochs = context.output<int64_t>(3, {rows});
    Batch batch(context, 4, features_, rows);
    for (int64_t row = 0; row < rows; ++row) {
      ids[row] = block.rows[row].id;
      epochs[row] = *epoch.data<int64_t>();
      batch.set(row, block.rows[row].record);
    }
  }

 private:
  static constexpr int64_t kNowhere = INT64_MAX / 2;  // where no file has anything

  struct Row {
    Span record;  // in this thread's memory
    int64_t id;
  };
  struct Block {
    int64_t next;  // byte
    int64_t next_id;
    std::vector<Row> rows;
  };

  // False at the end of the file.
  bool read(const File& file, Block* block) const {
    const int64_t offset = block->next;
    size_t wanted = static_cast<size_t>(block_);
    uint8_t* memory = tfhet::scratch<uint8_t>(wanted);
    size_t held = file.read(memory, wanted, offset);
    if (const size_t first = length(file, memory, held, offset) + kHeader + kFooter; held > 0 && first > wanted) {
      if (first + static_cast<uint64_t>(offset) > file.size()) file.broken(offset, "the file ends inside the record");
      memory = tfhet::scratch<uint8_t>(wanted = first);
      held = file.read(memory, wanted, offset);
    }
    Batch trial(features_);
    size_t at = 0;
    while (at < held) {
      const size_t left = held - at;
      const int64_t here = offset + static_cast<int64_t>(at);
      if (left >= kHeader) {
        const size_t size = length(file, memory + at, left, here);
        if (size <= left - kHeader && left - kHeader - size >= kFooter) {
          const uint8_t* data = memory + at + kHeader;
          const Span record{data, data + size};
          const bool whole = is_masked(stored(data + size), data, size);
          if (!whole && !skip_bad_) file.broken(here, "wrong checksum of the record");
          if (whole && (!skip_bad_ || trial.fits(record))) block->rows.push_back({record, block->next_id});
          at += kHeader + size + kFooter;
          block->next = offset + static_cast<int64_t>(at);
          ++block->next_id;
          continue;
        }
      }
      if (held < wanted) file.broken(here, "the file ends inside the record");
      break;  // the next block begins here
    }
    return held > 0;
  }

  static uint32_t stored(const uint8_t* at) {
    uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  // Of the record whose header begins here; 0 when not even the header is.
  static size_t length(const File& file, const uint8_t* at, size_t left, int64_t offset) {
    if (left < kHeader) return 0;
    if (!is_masked(stored(at + 8), at, 8)) file.broken(offset, "wrong checksum of the length");
    const uint64_t size = word_at(at);
    if (size > INT64_MAX / 2) file.broken(offset, "impossible length of the record");
    return size;
  }

  std::vector<Feature> features_;
  int64_t block_;
  bool skip_bad_;
};

// How many records of each TFRecord file can be reached by their lengths, but no more than `most`, the byte after the last
// of them, and the size of the file, -1 for one that cannot be opened. Lengths and their checksums are looked at, not the
// data.
class WalkRecords {
 public:
  explicit WalkRecords(const Attributes&) {}

  void compute(Context& context) const {
    const auto paths = context.input(0), most = context.input(1);
    paths.with_rank(1, "files");
    most.with_rank(0, "most");
    int64_t *counts = context.output<int64_t>(0, paths.shape), *ends = context.output<int64_t>(1, paths.shape),
            *sizes = context.output<int64_t>(2, paths.shape);
    for (int64_t i = 0; i < paths.shape[0]; ++i) {
      counts[i] = ends[i] = 0;
      sizes[i] = -1;
      try {
        const File file{std::string(paths.bytes(i))};
        walk(file, *most.data<int64_t>(), counts + i, ends + i);
        sizes[i] = static_cast<int64_t>(file.size());
      } catch (const tfhet::Failure&) {
      }
    }
  }

 private:
  static void walk(const File& file, int64_t most, int64_t* count, int64_t* end) {
    const uint64_t size = file.size();
    uint8_t* memory = tfhet::scratch<uint8_t>(kWindow);
    uint64_t at = 0, from = 0, held = 0;
    while (*count < most && at + kHeader <= size) {
      if (at < from || at + kHeader > from + held) {
        from = at;
        held = file.read(memory, kWindow, static_cast<int64_t>(at));
        if (held < kHeader) break;
      }
      const uint8_t* header = memory + (at - from);
      uint32_t checksum = 0;
      std::memcpy(&checksum, header + 8, sizeof checksum);
      const uint64_t length = word_at(header), left = size - at - kHeader;
      if (!is_masked(checksum, header, 8) || left < kFooter || length > left - kFooter) break;
      at += kHeader + length + kFooter;
      ++*count;
    }
    *end = static_cast<int64_t>(at);
  }

  static constexpr size_t kWindow = 4096;  // a page, which is what the system reads for a header anyway
};

constexpr const char* kTypes = "T: list({uint8, int64, float, string})";
const tfhet::Op<ParseExamples> parse{"TfhetParseExamples", {"serialized: string"}, {"values: T"}, {kTypes, "layout: string"}};
const tfhet::Op<WalkRecords> walk{
    "TfhetWalkRecords", {"files: string", "most: int64"}, {"counts: int64", "ends: int64", "sizes: int64"}, {}, true};
const tfhet::Op<ReadExamples> read{"TfhetReadExamples",
                                   {"file: string", "offset: int64", "id: int64", "epoch: int64"},
                                   {"next: int64", "next_id: int64", "ids: int64", "epochs: int64", "values: T"},
                                   {kTypes, "layout: string", "block_bytes: int", "skip_bad: int"},
                                   true};

}  // namespace
