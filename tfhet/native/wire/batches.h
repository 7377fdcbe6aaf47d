// Batches on a connection: plain, encrypted, or in memory that two processes of a host share.

#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <list>
#include <memory>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tunnel.h"

namespace tfhet {

using tensorflow::Status;
using tensorflow::Tensor;

// The message of a request: the count (uint32) and the numbers (uint32) of the segments that the reader has done with, and a
// GetElementRequest.
// The message of an answer: Answer, then for each tensor a Part with its dimensions (int64), or the text of an error. Its data:
// the tensors' bytes one after the other, unless they lie in a segment of shared memory, each at a multiple of kAlignment.
struct Answer {
  int32_t code;  // of the status
  uint8_t end_of_sequence, skip, segment_is_new;
  uint8_t unused;
  int64_t element_index;
  uint32_t segment;  // its number; 0: none
  uint32_t parts;
  uint64_t segment_bytes;
};
struct Part {
  int32_t dtype;
  uint16_t is_proto;  // whether the bytes are a TensorProto, as for strings; else the tensor's memory
  uint16_t dimensions;
  uint64_t bytes;
};
static_assert(sizeof(Answer) == 32 && sizeof(Part) == 16, "no gaps");
constexpr uint64_t kMostHeadBytes = 1 << 20;
constexpr uint32_t kMostRequestBytes = 1 << 16;
constexpr uint32_t kMostSegments = 64;  // that a reader may hold; what comes beyond goes over the socket
constexpr uint64_t kAlignment = 64;     // bytes; TensorFlow's (EIGEN_MAX_ALIGN_BYTES)
constexpr uint64_t kLeastShared = 4096;  // bytes; what is smaller goes over the socket

inline uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Memory that two processes have: made by one, whose descriptor the other one receives.
class Segment {
 public:
  // fd: of a memory file, which this object closes. Raises Broken.
  Segment(int fd, uint64_t bytes) : fd_(fd), bytes_(bytes) {
    struct stat found {};
    if (fd >= 0 && ::fstat(fd, &found) == 0 && static_cast<uint64_t>(found.st_size) >= bytes)
      memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory_ == MAP_FAILED) {
      if (fd >= 0) ::close(fd);
      throw Broken("shared memory cannot be had");
    }
  }
  static std::unique_ptr<Segment> make(uint64_t bytes) {
    const int fd = ::memfd_create("tfhet-batch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (::ftruncate(fd, bytes) != 0 || ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)) {
      ::close(fd);
      throw Broken("shared memory cannot be had");
    }
    return std::make_unique<Segment>(fd, bytes);
  }
  Segment(const Segment&) = delete;
  ~Segment() {
    ::munmap(memory_, bytes_);
    ::close(fd_);
  }
  char* memory() const { return static_cast<char*>(memory_); }
  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

 private:
  const int fd_;
  const uint64_t bytes_;
  void* memory_ = MAP_FAILED;
};

// The segments of a connection at the side that fills them.
class Filled {
 public:
  // A segment with room for `bytes`, and its number; 0 where none can be had.
  uint32_t take(uint64_t bytes, bool* is_new) {
    uint32_t best = 0;
    for (uint32_t number = 1; number <= all_.size(); ++number) {
      const Place& one = all_[number - 1];
      // Not one that is much larger: it would be missing for a batch that fills it.
      if (one.is_free && one.segment->bytes() >= bytes && one.segment->bytes() / 4 <= bytes &&
          (best == 0 || one.segment->bytes() < all_[best - 1].segment->bytes()))
        best = number;
    }
    *is_new = best == 0;
    if (best == 0) {
      if (all_.size() >= kMostSegments) return 0;
      try {
        constexpr uint64_t kPage = 4096;
        all_.push_back({Segment::make((bytes + kPage - 1) / kPage * kPage), true});
      } catch (const Broken&) {
        return 0;
      }
      best = static_cast<uint32_t>(all_.size());
    }
    all_[best - 1].is_free = false;
    return best;
  }
  void give_back(uint32_t number) {
    if (number == 0 || number > all_.size()) throw Broken("a segment that was never sent");
    all_[number - 1].is_free = true;
  }
  const Segment& operator[](uint32_t number) const { return *all_[number - 1].segment; }

 private:
  struct Place {
    std::unique_ptr<Segment> segment;
    bool is_free;
  };
  std::vector<Place> all_;
};

// The segments of a connection at the side that reads them; the tensors in them outlive the connection.
class Read {
 public:
  void add(uint32_t number, std::shared_ptr<Segment> segment) { all_[number] = std::move(segment); }
  std::shared_ptr<Segment> get(uint32_t number) const {
    auto found = all_.find(number);
    if (found == all_.end()) throw Broken("a segment that never came");
    return found->second;
  }
  void done_with(uint32_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    done_.push_back(number);
  }
  std::vector<uint32_t> take_done() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::move(done_);
  }

 private:
  std::map<uint32_t, std::shared_ptr<Segment>> all_;
  std::mutex mutex_;
  std::vector<uint32_t> done_;
};

// The loan of a segment to the tensors of one batch.
struct Loan {
  Loan(std::shared_ptr<Read> read, uint32_t number) : read(std::move(read)), number(number) {
    segment = this->read->get(number);
  }
  ~Loan() { read->done_with(number); }
  const std::shared_ptr<Read> read;
  const uint32_t number;
  std::shared_ptr<Segment> segment;
};

class LentBuffer : public tensorflow::TensorBuffer {
 public:
  LentBuffer(std::shared_ptr<Loan> loan, uint64_t offset, uint64_t bytes)
      : TensorBuffer(loan->segment->memory() + offset), loan_(std::move(loan)), bytes_(bytes) {}
  size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription*) const override {}
  bool GetAllocatedBytes(size_t* bytes) const override {
    *bytes = bytes_;
    return true;
  }

 private:
  const std::shared_ptr<Loan> loan_;
  const uint64_t bytes_;
};

template <class Value>
void append(std::string* to, const Value& value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class Value>
std::string bytes_of(const Value& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// A connection for batches that has passed the proofs.
class Line {
 public:
  Line(Socket& socket, const Job& job, Records records, Mode mode, bool is_client, Moment until)
      : socket_(socket), records_(std::move(records)) {
    if (mode == Mode::kEncryptedBatches) tls_ = std::make_unique<Tls>(socket, job.key, is_client, until);
    if (mode == Mode::kShared && !is_client) filled_ = std::make_unique<Filled>();
    if (mode == Mode::kShared && is_client) read_ = std::make_shared<Read>();
  }

  void send_request(const std::string& request) {
    const std::vector<uint32_t> done = read_ ? read_->take_done() : std::vector<uint32_t>();
    std::string message;
    append(&message, static_cast<uint32_t>(done.size()));
    for (uint32_t number : done) append(&message, number);
    send(message + request, {});
  }

  std::string receive_request() {
    uint64_t data;
    const std::string message = receive(kMostRequestBytes, &data);
    uint32_t returned = 0;
    if (data != 0 || message.size() < sizeof returned) throw Broken("a request of another version");
    std::memcpy(&returned, message.data(), sizeof returned);
    size_t at = sizeof returned;
    if (returned > kMostSegments || message.size() < at + returned * sizeof returned)
      throw Broken("a request of another version");
    for (uint32_t i = 0, number; i < returned; ++i, at += sizeof number) {
      std::memcpy(&number, message.data() + at, sizeof number);
      if (filled_) filled_->give_back(number);
    }
    return message.substr(at);
  }

  // Result: GetElementResult of TensorFlow.
  template <class Result>
  void send_answer(const Status& status, const Result& result) {
    Answer answer{};
    answer.code = static_cast<int32_t>(status.code());
    answer.end_of_sequence = result.end_of_sequence;
    answer.skip = result.skip;
    answer.element_index = result.element_index;
    std::string head;
    std::list<std::string> protos;
    std::vector<iovec> tensors;
    if (!status.ok()) {
      head.assign(status.message().data(), std::min<size_t>(status.message().size(), kMostHeadBytes));
    } else {
      answer.parts = static_cast<uint32_t>(result.components.size());
      for (const Tensor& tensor : result.components) {
        const bool is_plain = tensorflow::DataTypeCanUseMemcpy(tensor.dtype());
        iovec bytes;
        if (is_plain) {
          const auto memory = tensor.tensor_data();
          bytes = {const_cast<char*>(memory.data()), memory.size()};
        } else {
          tensorflow::TensorProto proto;
          tensor.AsProtoField(&proto);
          protos.push_back(proto.SerializeAsString());
          bytes = {&protos.back()[0], protos.back().size()};
        }
        const Part part{tensor.dtype(), !is_plain, static_cast<uint16_t>(tensor.dims()), bytes.iov_len};
        append(&head, part);
        for (int axis = 0; axis < tensor.dims(); ++axis) append(&head, static_cast<int64_t>(tensor.dim_size(axis)));
        tensors.push_back(bytes);
      }
    }
    bool is_new = false;
    uint64_t size = 0;
    for (const iovec& one : tensors) size = aligned(size) + one.iov_len;
    if (filled_ && size >= kLeastShared) answer.segment = filled_->take(size, &is_new);
    if (answer.segment == 0) return send(bytes_of(answer) + head, tensors);
    const Segment& segment = (*filled_)[answer.segment];
    answer.segment_is_new = is_new;
    answer.segment_bytes = segment.bytes();
    uint64_t at = 0;
    for (const iovec& one : tensors) {
      std::memcpy(segment.memory() + aligned(at), one.iov_base, one.iov_len);
      at = aligned(at) + one.iov_len;
    }
    send(bytes_of(answer) + head, {});
    if (is_new) send_descriptor(segment.fd());
  }

  template <class Result>
  Status receive_answer(Result* result) {
    Answer answer;
    uint64_t data;
    const std::string message = receive(sizeof answer + kMostHeadBytes, &data);
    if (message.size() < sizeof answer) throw Broken("an answer of another version");
    std::memcpy(&answer, message.data(), sizeof answer);
    const std::string head = message.substr(sizeof answer);
    if (answer.code != 0) return Status(static_cast<absl::StatusCode>(answer.code), head);
    result->element_index = answer.element_index;
    result->end_of_sequence = answer.end_of_sequence;
    result->skip = answer.skip;
    result->components.clear();
    std::shared_ptr<Loan> loan;
    if (answer.segment != 0) {
      if (!read_) throw Broken("shared memory that was not asked for");
      if (answer.segment_is_new)
        read_->add(answer.segment, std::make_shared<Segment>(receive_descriptor(), answer.segment_bytes));
      loan = std::make_shared<Loan>(read_, answer.segment);
    }
    const char *at = head.data(), *end = at + head.size();
    uint64_t offset = 0;
    for (uint32_t i = 0; i < answer.parts; ++i) {
      Part part;
      if (end - at < static_cast<ptrdiff_t>(sizeof part)) throw Broken("an answer that is cut");
      std::memcpy(&part, at, sizeof part);
      at += sizeof part;
      if (end - at < 8 * part.dimensions) throw Broken("an answer that is cut");
      tensorflow::TensorShape shape;
      for (int axis = 0; axis < part.dimensions; ++axis, at += 8) {
        int64_t size;
        std::memcpy(&size, at, 8);
        if (Status status = shape.AddDimWithStatus(size); !status.ok()) return status;
      }
      offset = aligned(offset);
      if (!loan && part.bytes > data) throw Broken("a tensor beyond its answer");
      if (!loan) data -= part.bytes;
      if (loan && (part.bytes > loan->segment->bytes() || offset > loan->segment->bytes() - part.bytes))
        throw Broken("a tensor beyond its segment");
      const auto dtype = static_cast<tensorflow::DataType>(part.dtype);
      if (part.is_proto) {
        std::string bytes;
        if (loan) {
          bytes.assign(loan->segment->memory() + offset, part.bytes);
        } else {
          bytes.resize(part.bytes);
          read(&bytes[0], bytes.size());
        }
        tensorflow::TensorProto proto;
        Tensor tensor;
        if (!proto.ParseFromString(bytes) || !tensor.FromProto(proto)) throw Broken("a tensor that cannot be read");
        result->components.push_back(std::move(tensor));
      } else if (!tensorflow::DataTypeCanUseMemcpy(dtype) ||
                 part.bytes != static_cast<uint64_t>(shape.num_elements()) * tensorflow::DataTypeSize(dtype)) {
        throw Broken("a tensor of another size than its shape has");
      } else if (loan) {
        tensorflow::core::RefCountPtr<tensorflow::TensorBuffer> buffer(new LentBuffer(loan, offset, part.bytes));
        result->components.emplace_back(dtype, shape, std::move(buffer));
      } else {
        Tensor tensor(dtype, shape);
        read(const_cast<char*>(tensor.tensor_data().data()), part.bytes);
        result->components.push_back(std::move(tensor));
      }
      offset += part.bytes;
    }
    if (data != 0) throw Broken("an answer with more bytes than its tensors have");
    return Status();
  }

 private:
  // data: bytes that follow the message.
  void send(const std::string& message, const std::vector<iovec>& data) {
    uint64_t size = 0;
    for (const iovec& one : data) size += one.iov_len;
    std::string record = records_.sealed(message, size);
    std::vector<iovec> pieces{{&record[0], record.size()}};
    pieces.insert(pieces.end(), data.begin(), data.end());
    write(pieces);
  }
  // The next message, and the number of bytes of its data, which the caller must read. Raises Broken.
  std::string receive(uint64_t most, uint64_t* data) {
    char head[kRecordHead];
    read(head, sizeof head);
    const Records::Lengths lengths = records_.lengths(head, most);
    std::string message(lengths.message + kTag, '\0');
    read(&message[0], message.size());
    records_.open(&message);
    *data = lengths.data;
    return message;
  }
  void read(void* into, size_t size) { tls_ ? tls_->read(into, size) : socket_.read(into, size); }
  void write(std::vector<iovec>& pieces) {
    tls_ ? tls_->write(pieces) : socket_.write(pieces);
  }

  // A byte with a descriptor beside it, as sendmsg(2) and unix(7) describe it.
  struct Carrier {
    explicit Carrier(bool receives) {
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = room;
      message.msg_controllen = sizeof room;
      if (receives) return;
      cmsghdr* control = CMSG_FIRSTHDR(&message);
      control->cmsg_level = SOL_SOCKET;
      control->cmsg_type = SCM_RIGHTS;
      control->cmsg_len = CMSG_LEN(sizeof(int));
    }
    char byte = 0;
    iovec piece{&byte, 1};
    msghdr message{};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  };
  void send_descriptor(int fd) {
    Carrier carrier(false);
    std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&carrier.message)), &fd, sizeof fd);
    while (::sendmsg(socket_.fd(), &carrier.message, MSG_NOSIGNAL) < 0) {
      if (errno != EAGAIN && errno != EINTR) throw Broken(reason("sendmsg"));
      socket_.wait(POLLOUT, kNever);
    }
  }
  int receive_descriptor() {
    Carrier carrier(true);
    ssize_t got;
    while ((got = ::recvmsg(socket_.fd(), &carrier.message, MSG_CMSG_CLOEXEC)) < 0) {
      if (errno != EAGAIN && errno != EINTR) throw Broken(reason("recvmsg"));
      socket_.wait(POLLIN, kNever);
    }
    const cmsghdr* control = CMSG_FIRSTHDR(&carrier.message);
    if (got == 0 || control == nullptr || control->cmsg_type != SCM_RIGHTS) throw Broken("no shared memory came");
    int fd;
    std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
    return fd;
  }

  Socket& socket_;
  Records records_;
  std::unique_ptr<Tls> tls_;
  std::unique_ptr<Filled> filled_;
  std::shared_ptr<Read> read_;
};

}  // namespace tfhet
