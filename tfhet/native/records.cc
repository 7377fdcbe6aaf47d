// Readers of records as ops: kernels/example.h and kernels/records.h, from the bytes of records, or from a TFRecord file,
// straight into batches.

#include "example.h"
#include "op.h"
#include "records.h"

namespace {

using tfhet::Attributes;
using tfhet::Context;
using namespace tfhet::records;

// The outputs of an op for the features of a block of examples.
class Batch {
 public:
  Batch(const Context& context, int first_output, const std::vector<Feature>& features, int64_t rows)
      : texts_(features.size()), parser_(features, columns(context, first_output, features, rows)) {}

  // `record` is one serialised Example.
  void set(int64_t row, Span record) {
    parser_.set(row, record);
    for (Texts& texts : texts_)
      for (size_t at = row * texts.size; at < (row + 1) * texts.size; ++at)
        TF_TString_Copy(texts.to + at, reinterpret_cast<const char*>(texts.values[at]), texts.lengths[at]);
  }

 private:
  // A feature of byte strings; of others the size is 0.
  struct Texts {
    size_t size = 0;
    TF_TString* to = nullptr;
    std::vector<const uint8_t*> values;
    std::vector<int64_t> lengths;
  };

  std::vector<Column> columns(const Context& context, int first_output, const std::vector<Feature>& features, int64_t rows) {
    std::vector<Column> made(features.size());
    for (size_t i = 0; i < features.size(); ++i) {
      const int index = first_output + static_cast<int>(i);
      const size_t size = features[i].size;
      const tfhet::Shape shape{rows, static_cast<int64_t>(size)};
      switch (features[i].kind) {
        case kRaw:
          made[i].values = context.output<uint8_t>(index, shape);
          break;
        case kInt64:
          made[i].values = context.output<int64_t>(index, shape);
          break;
        case kFloat:
          made[i].values = context.output<float>(index, shape);
          break;
        case kBytes:
          texts_[i].to = context.strings(index, shape);
          texts_[i].size = size;
          texts_[i].values.resize(rows * size);
          texts_[i].lengths.resize(rows * size);
          made[i] = {texts_[i].values.data(), texts_[i].lengths.data()};
      }
    }
    return made;
  }

  std::vector<Texts> texts_;
  Parser parser_;
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
    Parser trial(features_);
    size_t at = 0;
    while (at < held) {
      const size_t left = held - at;
      const int64_t here = offset + static_cast<int64_t>(at);
      if (left >= kHeader) {
        const size_t size = length(file, memory + at, left, here);
        if (size <= left - kHeader && left - kHeader - size >= kFooter) {
          const uint8_t* data = memory + at + kHeader;
          const Span record{data, data + size};
          const bool whole = is_sound(data, size);
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

  // Of the record whose header begins here; 0 when not even the header is.
  static size_t length(const File& file, const uint8_t* at, size_t left, int64_t offset) {
    if (left < kHeader) return 0;
    return data_bytes(file, at, offset);
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
        const auto record = [&](int64_t) { ++counts[i]; };
        walk(file, *most.data<int64_t>(), record, [&](int64_t end, const std::string&) { ends[i] = end; });
        sizes[i] = static_cast<int64_t>(file.size());
      } catch (const tfhet::Failure&) {
      }
    }
  }
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
