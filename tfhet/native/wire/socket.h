// Sockets with deadlines, which another thread may end.

#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace tfhet {

// A peer that is gone, silent or of another job: the caller asks again, or gives up.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Moment = std::chrono::steady_clock::time_point;
inline Moment after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}
constexpr Moment kNever = Moment::max();

inline int milliseconds_until(Moment end) {
  if (end == kNever) return -1;
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left + 1, 0, 1 << 30));
}

inline std::string reason(const std::string& what) { return what + ": " + std::strerror(errno); }

// A connected socket in non-blocking mode. `end` may be called by any thread, and wakes who waits for the socket.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {
    if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }

  int fd() const { return fd_; }
  void end() { ::shutdown(fd_, SHUT_RDWR); }

  // Waits until the socket can be read or written. Raises Broken at the deadline.
  void wait(short events, Moment until) const {
    pollfd one{fd_, events, 0};
    int ready;
    while ((ready = ::poll(&one, 1, milliseconds_until(until))) < 0 && errno == EINTR) {
    }
    if (ready == 0) throw Broken("the peer took too long to answer");
    if (ready < 0) throw Broken(reason("poll"));
  }

  void read(void* into, size_t size, Moment until = kNever) const {
    for (auto* at = static_cast<char*>(into); size > 0;) {
      const ssize_t got = ::recv(fd_, at, size, 0);
      if (got == 0) throw Broken("the peer has closed the connection");
      if (got > 0) {
        at += got, size -= got;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        wait(POLLIN, until);
      } else if (errno != EINTR) {
        throw Broken(reason("recv"));
      }
    }
  }

  // Writes all of the pieces, of which it changes the vector.
  void write(std::vector<iovec>& pieces, Moment until = kNever) const {
    for (size_t first = 0; first < pieces.size();) {
      msghdr message{};
      message.msg_iov = &pieces[first];
      message.msg_iovlen = std::min<size_t>(pieces.size() - first, 64);
      ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
          wait(POLLOUT, until);
        } else if (errno != EINTR) {
          throw Broken(reason("send"));
        }
        continue;
      }
      for (; first < pieces.size() && static_cast<size_t>(sent) >= pieces[first].iov_len; ++first)
        sent -= pieces[first].iov_len;
      if (sent > 0) {
        pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + sent;
        pieces[first].iov_len -= sent;
      }
    }
  }
  void write(const void* from, size_t size, Moment until = kNever) const {
    std::vector<iovec> one{{const_cast<void*>(from), size}};
    write(one, until);
  }

 private:
  int fd_ = -1;
};

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Splits HOST:PORT, where the host may be an IPv6 address in brackets.
inline bool split_target(const std::string& target, std::string* host, std::string* port) {
  const size_t colon = target.rfind(':');
  if (colon == std::string::npos) return false;
  *host = target.substr(0, colon);
  *port = target.substr(colon + 1);
  if (host->size() > 2 && host->front() == '[' && host->back() == ']') *host = host->substr(1, host->size() - 2);
  return !host->empty() && !port->empty();
}

inline std::vector<Address> resolve(const std::string& host, const std::string& port, bool to_listen) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) throw Broken("the address of " + host + " cannot be found: " + gai_strerror(code));
  std::vector<Address> addresses;
  for (auto* one = found; one != nullptr; one = one->ai_next) {
    Address address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return addresses;
}

inline void quicken(int fd) {
  int yes = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

// A way for another thread to end what one does, with whatever socket it uses.
class Ending {
 public:
  // The time during which `socket` is used. Raises Broken where all has been ended.
  class Use {
   public:
    Use(Ending& ending, Socket& socket) : ending_(ending) {
      std::lock_guard<std::mutex> lock(ending_.mutex_);
      if (ending_.ended_) throw Broken("cancelled");
      ending_.socket_ = &socket;
    }
    ~Use() {
      std::lock_guard<std::mutex> lock(ending_.mutex_);
      ending_.socket_ = nullptr;
    }

   private:
    Ending& ending_;
  };

  void end() {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    if (socket_ != nullptr) socket_->end();
  }
  bool ended() {
    std::lock_guard<std::mutex> lock(mutex_);
    return ended_;
  }
  const Moment begun = std::chrono::steady_clock::now();

 private:
  std::mutex mutex_;
  Socket* socket_ = nullptr;
  bool ended_ = false;
};

// A connection to one of the addresses of `host`, the first that answers. Raises Broken.
inline Socket dial(const std::string& host, const std::string& port, Moment until, Ending* ending) {
  std::string failure = "no address";
  for (const Address& address : resolve(host, port, false)) {
    Socket one(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (one.fd() < 0) throw Broken(reason("socket"));
    quicken(one.fd());
    int error = ::connect(one.fd(), address.get(), address.size) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd waits{one.fd(), POLLOUT, 0};
      // A socket that is being connected does not hear of its end, so that is looked for.
      while (::poll(&waits, 1, std::min(100, milliseconds_until(until))) <= 0) {
        if (ending != nullptr && ending->ended()) throw Broken("cancelled");
        if (std::chrono::steady_clock::now() >= until) throw Broken(host + ":" + port + ": no connection in time");
      }
      socklen_t size = sizeof error;
      ::getsockopt(one.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return one;
    failure = std::string("connect: ") + std::strerror(error);
  }
  throw Broken(host + ":" + port + ": " + failure);
}

}  // namespace tfhet
