// Readers of files and records behind the C interface.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>

#include "example.h"
#include "guard.h"
#include "memory.h"
#include "parallel.h"
#include "records.h"

namespace {

using tfhet::Code;
using tfhet::Failure;
using tfhet::guarded;
using tfhet::invalid;
using tfhet::Piece;
using tfhet::piece;
using namespace tfhet::records;

[[noreturn]] void defect(const char* what) { throw Failure{Code::internal, what}; }

// Items that follow each other and are of one file, which is open from the first of them to the last.
class Run {
 public:
  Run(const char* path, int64_t items) : path_(path), left_(items) {}

  template <class Work>
  void with_file(const Work& work) {
    work(opened());
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--left_ == 0) file_.reset();
  }

 private:
  const File& opened() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!file_) file_.emplace(path_);
    return *file_;
  }

  const char* path_;
  int64_t left_;
  std::mutex mutex_;
  std::optional<File> file_;
};

struct Content {
  Piece memory;
  const uint8_t* at;
  int64_t size;
};

// Bytes of a record with its header and checksums.
int64_t record_bytes(const File& file, int64_t offset) {
  uint8_t header[kHeader];
  if (static_cast<uint64_t>(offset) >= file.size()) file.broken(offset, "the file ends before the record");
  if (file.read(header, kHeader, offset) < kHeader) file.broken(offset, "the file ends inside the record");
  return static_cast<int64_t>(kHeader + data_bytes(file, header, offset) + kFooter);
}

Content content(const File& file, int64_t offset, int64_t length, bool framed) {
  const auto end = static_cast<int64_t>(file.size());
  if (length < 0 && framed) length = record_bytes(file, offset);
  if (length < 0) length = end - offset;
  if (offset > end || length > end - offset) {
    const std::string has = "the file has " + std::to_string(end) + " bytes";
    file.broken(offset, framed         ? "the file ends inside the record"
                        : offset > end ? has + ": nothing is"
                                       : has + ", too few for " + std::to_string(length) + " bytes");
  }
  Content made{piece(length), nullptr, length};
  made.at = made.memory.get();
  if (file.read(made.memory.get(), length, offset) < static_cast<size_t>(length))
    file.broken(offset, "the file became shorter while it was read");
  if (!framed) return made;
  const uint64_t size = data_bytes(file, made.at, offset);
  if (size != static_cast<uint64_t>(length) - kHeader - kFooter)
    file.broken(offset, "the record has " + std::to_string(kHeader + size + kFooter) + " bytes, not " + std::to_string(length));
  made.at += kHeader;
  made.size = static_cast<int64_t>(size);
  if (!is_sound(made.at, size)) file.broken(offset, "wrong checksum of the record");
  return made;
}

void check(const tfhet_items& items) {
  if (items.size < 0) invalid("a batch has no negative size");
  if (items.size > 0 && (!items.paths || !items.addresses || !items.sizes)) defect("no paths, or no room for the results");
  for (int64_t i = 0; i < items.size; ++i) {
    const std::string number = "[" + std::to_string(i) + "]";
    if (!items.paths[i]) defect("a path is missing");
    if (items.offsets && items.offsets[i] < 0) invalid("offsets" + number + " is negative");
    if (!items.lengths || items.lengths[i] == -1) continue;
    if (items.lengths[i] < 0) invalid("lengths" + number + " is negative");
    if (items.framed && items.lengths[i] < static_cast<int64_t>(kHeader + kFooter))
      invalid("lengths" + number + " is " + std::to_string(items.lengths[i]) + ": a record has at least 16 bytes");
  }
}

void read(const tfhet_items& items, tfhet_memory& memory) {
  std::vector<std::unique_ptr<Run>> runs;
  std::vector<Run*> run_of(items.size);
  for (int64_t first = 0, end = 0; first < items.size; first = end) {
    const char* const path = items.paths[first];
    while (end < items.size && (items.paths[end] == path || std::strcmp(items.paths[end], path) == 0)) ++end;
    runs.push_back(std::make_unique<Run>(path, end - first));
    std::fill(run_of.begin() + first, run_of.begin() + end, runs.back().get());
  }
  memory.pieces.resize(items.size);
  tfhet::in_parallel(items.size, items.threads, [&](int64_t i) {
    try {
      run_of[i]->with_file([&](const File& file) {
        const int64_t offset = items.offsets ? items.offsets[i] : 0, length = items.lengths ? items.lengths[i] : -1;
        Content made = content(file, offset, length, items.framed != 0);
        memory.pieces[i] = std::move(made.memory);
        items.addresses[i] = made.at;
        items.sizes[i] = made.size;
      });
    } catch (Failure& failure) {
      failure.item = i;
      throw;
    }
  });
}

int64_t bytes_of(Kind kind) { return kind == kRaw ? 1 : kind == kFloat ? 4 : 8; }

std::vector<Column> columns_of(const std::vector<Feature>& features, int64_t rows, const tfhet_column* columns, int64_t count) {
  if (count != static_cast<int64_t>(features.size()) || (count > 0 && !columns)) defect("the layout has another number of columns");
  std::vector<Column> made;
  for (int64_t i = 0; i < count; ++i) {
    const Feature& feature = features[i];
    int64_t bytes = bytes_of(feature.kind);
    for (const int64_t length : {rows, static_cast<int64_t>(feature.size)})
      if (__builtin_mul_overflow(bytes, length, &bytes)) invalid("feature " + feature.name + " is too large");
    if (columns[i].room != bytes || (bytes > 0 && (!columns[i].values || (feature.kind == kBytes && !columns[i].lengths))))
      defect("a column has another size than its feature");
    made.push_back({columns[i].values, columns[i].lengths});
  }
  return made;
}

constexpr int64_t kTimedEach = 8;  // of so many calls one is timed, which takes about 20 us
std::atomic<int64_t> calls{0}, timed_items{0}, waited_ns{0};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Nanoseconds in which this thread ran or waited for a CPU; -1 if the system does not state them.
int64_t busy_ns() {
  long long ran = 0, delayed = 0;
  std::FILE* const file = std::fopen("/proc/thread-self/schedstat", "re");
  if (!file) return -1;
  const bool is_read = std::fscanf(file, "%lld %lld", &ran, &delayed) == 2;
  std::fclose(file);
  return is_read ? ran + delayed : -1;
}

}  // namespace

TFHET_EXPORT int64_t tfhet_files_waited(int64_t* nanoseconds) {
  *nanoseconds = waited_ns.load(std::memory_order_relaxed);
  return timed_items.load(std::memory_order_relaxed);
}

TFHET_EXPORT int32_t tfhet_files_read(const tfhet_items* items, tfhet_memory** memory, tfhet_status* status) {
  return guarded(status, [&] {
    if (!items || !memory) defect("no items, or no place for the memory");
    check(*items);
    auto made = std::make_unique<tfhet_memory>();
    const int64_t busy = calls.fetch_add(1, std::memory_order_relaxed) % kTimedEach ? -1 : busy_ns(), begun = now_ns();
    read(*items, *made);
    if (busy >= 0) {
      waited_ns.fetch_add(std::max<int64_t>(0, now_ns() - begun - (busy_ns() - busy)), std::memory_order_relaxed);
      timed_items.fetch_add(items->size, std::memory_order_relaxed);
    }
    *memory = made.release();
  });
}

TFHET_EXPORT void tfhet_memory_free(tfhet_memory* memory) { delete memory; }

TFHET_EXPORT int32_t tfhet_examples_parse(int64_t size, const void* const* records, const int64_t* lengths, const char* layout,
                                          int64_t layout_bytes, const tfhet_column* columns, int64_t columns_count,
                                          tfhet_status* status) {
  return guarded(status, [&] {
    if (size < 0 || layout_bytes < 0 || columns_count < 0) invalid("a batch has no negative size");
    if (!layout || (size > 0 && (!records || !lengths))) defect("no layout, or no records");
    const std::vector<Feature> features = features_of(std::string(layout, static_cast<size_t>(layout_bytes)));
    Parser parser(features, columns_of(features, size, columns, columns_count));
    for (int64_t row = 0; row < size; ++row) {
      const auto* const at = static_cast<const uint8_t*>(records[row]);
      if (lengths[row] < 0 || (!at && lengths[row] > 0)) defect("a record is missing");
      parser.set(row, {at, at + lengths[row]});
    }
  });
}

TFHET_EXPORT int32_t tfhet_records_offsets(const char* path, int64_t* records, const int64_t** offsets, const char** reason,
                                           tfhet_memory** memory, tfhet_status* status) {
  return guarded(status, [&] {
    if (!path || !records || !offsets || !reason || !memory) defect("no path, or no place for the result");
    auto made = std::make_unique<tfhet_memory>();
    const File file(path);
    walk(
        file, INT64_MAX, [&](int64_t offset) { made->offsets.push_back(offset); },
        [&](int64_t end, const std::string& why) {
          made->offsets.push_back(end);
          made->reason = why;
        });
    *records = static_cast<int64_t>(made->offsets.size()) - 1;
    *offsets = made->offsets.data();
    *reason = made->reason.c_str();
    *memory = made.release();
  });
}
