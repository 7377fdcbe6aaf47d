// A cable that takes its time: passes every frame from one network device to another, and back, so much later.
//
//   delay DEVICE DEVICE
//
// It says "ready" when both devices are open. Each line on its standard input is the delay from then on, in microseconds,
// which it says back when that is so; with the first one it begins to pass frames. It ends with the end of its input:
// also when whoever started it dies.
//
// Frames keep their order in each direction. They come and go with their virtio-net header, so that those which the
// kernel has not cut into segments, and whose checksum it has not yet computed, stay as they are: 64 KiB at a time.
// A frame that finds the store full, or the device it goes to, is lost: as in any queue.

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <vector>

#ifndef PACKET_IGNORE_OUTGOING  // since Linux 4.20
#define PACKET_IGNORE_OUTGOING 23
#endif

namespace {

constexpr size_t kHeaderBytes = 10;  // struct virtio_net_hdr; linux/virtio_net.h is no C++
constexpr size_t kFrameBytes = kHeaderBytes + (size_t{64} << 10) + 256;  // the longest
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kMostChunks = 128;  // of each direction: 1 s at 1 Gbit/s
constexpr int kSocketBytes = 64 << 20;  // what may wait in the kernel, while this process does not run
constexpr int kBatch = 64;              // frames of one direction before the other has its turn

[[noreturn]] void fail(const char* what, const char* device) {
  fprintf(stderr, "%s %s: %s\n", what, device, strerror(errno));
  exit(1);
}

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

int open_device() {
  const int file = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);  // protocol 0: hears nothing yet
  if (file < 0) fail("cannot open a packet socket for", "the delay");
  const int one = 1;
  if (setsockopt(file, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) != 0) fail("no virtio-net headers:", "socket");
  if (setsockopt(file, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) != 0) fail("hears itself:", "socket");
  setsockopt(file, SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBytes, sizeof kSocketBytes);
  setsockopt(file, SOL_SOCKET, SO_SNDBUFFORCE, &kSocketBytes, sizeof kSocketBytes);
  return file;
}

void attach(int file, const char* device, int protocol) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(static_cast<uint16_t>(protocol));
  address.sll_ifindex = static_cast<int>(if_nametoindex(device));
  if (address.sll_ifindex == 0) fail("no device", device);
  if (bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("cannot bind to", device);
}

// What is on its way in one direction, first in, first out: records of {due, size, frame} in chunks of memory.
class Way {
 public:
  Way(int from, int to) : from_(from), to_(to) {}

  // Takes what has arrived, to be passed on after `delay_ns`.
  void take(int64_t delay_ns) {
    static char nowhere[kFrameBytes];
    for (int i = 0; i < kBatch; ++i) {
      Record* const record = place();
      const ssize_t size = recv(from_, record != nullptr ? record->frame : nowhere, kFrameBytes, MSG_TRUNC);
      if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      // Errors: a frame of a kind that the header cannot tell of; a device that is down, for as long as it is.
      if (size <= 0 || static_cast<size_t>(size) > kFrameBytes || record == nullptr) continue;
      last_due_ns_ = std::max(last_due_ns_, now_ns() + delay_ns);
      record->due_ns = last_due_ns_;
      record->size = static_cast<size_t>(size);
      chunks_.back()->end += bytes_of(record->size);
    }
  }

  // Passes on what is due.
  void pass(int64_t now) {
    for (int i = 0; i < kBatch && is_waiting(); ++i) {
      Chunk* const chunk = chunks_.front();
      const Record* const record = chunk->at(chunk->begin);
      if (record->due_ns > now) return;
      // One that the device does not take is lost, as it would be in the device's own queue.
      (void)!send(to_, record->frame, record->size, MSG_DONTWAIT);
      chunk->begin += bytes_of(record->size);
      if (chunk->begin == chunk->end) {
        chunk->begin = chunk->end = 0;
        if (chunks_.size() > 1) {
          chunks_.pop_front();
          spare_.push_back(chunk);
        }
      }
    }
  }

  // When the next one is due; INT64_MAX for never.
  int64_t next_ns() const { return is_waiting() ? chunks_.front()->at(chunks_.front()->begin)->due_ns : INT64_MAX; }

  int source() const { return from_; }

 private:
  struct Record {
    int64_t due_ns;
    size_t size;
    char frame[8];  // in truth `size` bytes
  };

  struct Chunk {
    size_t begin = 0, end = 0;
    alignas(16) char bytes[kChunkBytes];

    Record* at(size_t offset) { return reinterpret_cast<Record*>(bytes + offset); }
  };

  static size_t bytes_of(size_t size) { return (offsetof(Record, frame) + size + 15) / 16 * 16; }

  bool is_waiting() const { return !chunks_.empty() && chunks_.front()->begin != chunks_.front()->end; }

  // Where the next record goes, with room for the longest frame; nullptr when there is none.
  Record* place() {
    if (chunks_.empty() || chunks_.back()->end + bytes_of(kFrameBytes) > kChunkBytes) {
      if (chunks_.size() == kMostChunks) return nullptr;
      if (spare_.empty()) spare_.push_back(new Chunk);  // kept until the process ends
      chunks_.push_back(spare_.back());
      spare_.pop_back();
    }
    return chunks_.back()->at(chunks_.back()->end);
  }

  const int from_, to_;
  std::deque<Chunk*> chunks_;
  std::vector<Chunk*> spare_;
  int64_t last_due_ns_ = 0;
};

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    fprintf(stderr, "delay DEVICE DEVICE\n");
    return 2;
  }
  // A network does not wait until the hosts' processes leave it a CPU; and it looks at its watch.
  setpriority(PRIO_PROCESS, 0, -15);
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  const int devices[2] = {open_device(), open_device()};
  for (int i = 0; i < 2; ++i) attach(devices[i], words[1 + i], 0);
  Way there(devices[0], devices[1]), back(devices[1], devices[0]);
  puts("ready");
  fflush(stdout);

  char line[64];
  size_t length = 0;
  int64_t delay_ns = -1;
  for (;;) {
    const int64_t next = std::min(there.next_ns(), back.next_ns());
    timespec wait{};
    if (next != INT64_MAX) {
      const int64_t left = std::max<int64_t>(0, next - now_ns());
      wait = {static_cast<time_t>(left / 1000000000), static_cast<long>(left % 1000000000)};
    }
    pollfd ready[3] = {{STDIN_FILENO, POLLIN, 0}, {there.source(), POLLIN, 0}, {back.source(), POLLIN, 0}};
    if (ppoll(ready, 3, next != INT64_MAX ? &wait : nullptr, nullptr) < 0 && errno != EINTR) fail("cannot", "poll");
    if (ready[0].revents != 0) {
      const ssize_t size = read(STDIN_FILENO, line + length, sizeof line - length);
      if (size <= 0) return 0;
      length += static_cast<size_t>(size);
      char* end;
      while ((end = static_cast<char*>(memchr(line, '\n', length))) != nullptr) {
        const bool first = delay_ns < 0;
        delay_ns = strtoll(line, nullptr, 10) * 1000;
        if (first) {
          for (int i = 0; i < 2; ++i) attach(devices[i], words[1 + i], ETH_P_ALL);
        }
        printf("%lld\n", static_cast<long long>(delay_ns / 1000));
        fflush(stdout);
        length -= static_cast<size_t>(end + 1 - line);
        memmove(line, end + 1, length);
      }
      if (length == sizeof line) return 2;
    }
    if (ready[1].revents != 0) there.take(delay_ns);
    if (ready[2].revents != 0) back.take(delay_ns);
    const int64_t now = now_ns();
    there.pass(now);
    back.pass(now);
  }
}
