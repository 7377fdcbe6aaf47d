// The connections of one job's processes. A server's gRPC listens on a socket file that only its own user can open; what
// others reach is a Listener, which lets in who proves the job's key, and carries control connections, encrypted, to that
// file. A client's gRPC dials a Tunnel in its own process, which carries its connections to such a Listener.

#pragma once

#include <cstddef>
#include <cstdio>
#include <dirent.h>
#include <functional>
#include <list>
#include <map>
#include <set>

#include "far.h"
#include "refusal.h"

namespace tfhet {

constexpr size_t kMostUnproved = 256;
constexpr size_t kPumpBytes = 1 << 14;  // fresh memory costs more than a further call of the kernel

// Carries bytes between a plain socket and an encrypted one until either ends.
inline void pump(const Socket& plain, const Socket& far, Tls& tls) {
  std::vector<char> there(kPumpBytes), back(kPumpBytes);
  size_t there_at = 0, there_end = 0, back_at = 0, back_end = 0;
  short tls_needs = POLLIN;
  for (bool plain_open = true;;) {
    bool moved = false;
    if (there_at == there_end && plain_open) {
      const ssize_t got = ::recv(plain.fd(), there.data(), there.size(), 0);
      if (got == 0) plain_open = false;
      if (got > 0) there_at = 0, there_end = got, moved = true;
      if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return;
    }
    tls_needs = POLLIN;
    if (there_at < there_end) {
      const int sent = tls.write_some(&there[there_at], there_end - there_at);
      if (sent == 0) return;
      if (sent > 0) there_at += sent, moved = true;
      if (sent == -POLLOUT) tls_needs |= POLLOUT;
    } else if (!plain_open) {
      return;
    }
    if (back_at == back_end) {
      const int got = tls.read_some(back.data(), back.size());
      if (got == 0) return;
      if (got > 0) back_at = 0, back_end = got, moved = true;
      if (got == -POLLOUT) tls_needs |= POLLOUT;
    }
    if (back_at < back_end) {
      const ssize_t sent = ::send(plain.fd(), &back[back_at], back_end - back_at, MSG_NOSIGNAL);
      if (sent > 0) back_at += sent, moved = true;
      if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return;
    }
    if (moved || (back_at == back_end && tls.has_read())) continue;
    pollfd both[2] = {{plain.fd(), 0, 0}, {far.fd(), 0, 0}};
    if (there_at == there_end && plain_open) both[0].events |= POLLIN;
    if (back_at < back_end) both[0].events |= POLLOUT;
    both[1].events = back_at == back_end ? tls_needs : static_cast<short>(tls_needs & ~POLLIN);
    ::poll(both, 2, -1);
    if ((both[0].revents | both[1].revents) & (POLLERR | POLLNVAL)) return;
  }
}

// Threads that each serve one connection. Ends and awaits them all when it goes.
class Servants {
 public:
  ~Servants() {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_ = true;
    for (Socket* one : sockets_) one->end();
    none_.wait(lock, [this] { return running_ == 0; });
  }

  // work: has its socket to itself, and may raise.
  void serve(Socket socket, std::function<void(Socket&)> work) {
    auto shared = std::make_shared<Socket>(std::move(socket));
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (ended_) return;
      ++running_;
      sockets_.insert(shared.get());
    }
    auto leave = [this](Socket* one) {
      std::lock_guard<std::mutex> lock(mutex_);
      sockets_.erase(one);
      if (--running_ == 0) none_.notify_all();
    };
    try {
      std::thread([this, shared, work, leave] {
        try {
          work(*shared);
        } catch (const Distrusted& error) {
          report(peer_of(shared->fd()), error.what());
        } catch (const std::exception&) { // the other side sees its connection end, and asks again
        }
        leave(shared.get());
      }).detach();
    } catch (const std::system_error&) {  // no thread to be had
      leave(shared.get());
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  std::set<Socket*> sockets_;
  int running_ = 0;
  bool ended_ = false;
};

// Accepts connections on listening sockets until it goes.
class Acceptor {
 public:
  Acceptor(std::vector<Socket> listening, std::function<void(Socket)> accepted)
      : listening_(std::move(listening)), accepted_(std::move(accepted)) {
    if (::pipe2(wake_, O_CLOEXEC) != 0) throw Broken(reason("pipe"));
    thread_ = std::thread([this] { run(); });
  }
  ~Acceptor() {
    ::close(wake_[1]);
    thread_.join();
    ::close(wake_[0]);
  }

 private:
  void run() {
    std::vector<pollfd> waits{{wake_[0], POLLIN, 0}};
    for (const Socket& one : listening_) waits.push_back({one.fd(), POLLIN, 0});
    for (;;) {
      if (::poll(waits.data(), waits.size(), -1) < 0) continue;
      if (waits[0].revents != 0) return;
      for (size_t i = 1; i < waits.size(); ++i) {
        if (waits[i].revents == 0) continue;
        const int fd = ::accept4(waits[i].fd, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) {
          accepted_(Socket(fd));
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until others have ended
        }
      }
    }
  }

  std::vector<Socket> listening_;
  std::function<void(Socket)> accepted_;
  int wake_[2];
  std::thread thread_;
};

// Where readers on the same host (and in its network namespace) reach a server: a name without a file, which says nothing.
inline Address shared_address(const Job& job, int port) {
  Address address;
  auto* place = reinterpret_cast<sockaddr_un*>(&address.storage);
  place->sun_family = AF_UNIX;
  std::string name(1, '\0');
  name += "tfhet-";
  for (char byte : job.key.derived("shared " + job.name + " " + std::to_string(port)).substr(0, 16)) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    name += digits;
  }
  std::memcpy(place->sun_path, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return address;
}

// A connection to a server of this host; none where there is no such server, or where another user has taken its name,
// which /proc/net/unix shows to all.
inline Socket dial_shared(const Job& job, int port) {
  Socket one(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address address = shared_address(job, port);
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_own = ::connect(one.fd(), address.get(), address.size) == 0 &&
                      ::getsockopt(one.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
  return is_own ? std::move(one) : Socket();
}

// What others reach of a server of this job.
class Listener {
 public:
  using Serve = std::function<void(Socket&, Mode, Records)>;

  Listener(const Job& job, int port, std::string file)
      : job_(job), file_(std::move(file)), acceptor_(bound(job, port), [this](Socket one) {
          servants_.serve(std::move(one), [this](Socket& socket) { admit(socket); });
        }) {}

  // serve: answers one connection for batches, until that ends.
  void serve_batches(Serve serve) {
    std::lock_guard<std::mutex> lock(mutex_);
    serve_ = std::move(serve);
  }

 private:
  static std::vector<Socket> bound(const Job& job, int port) {
    std::vector<Socket> sockets;
    const std::string& host = job.listen;
    for (const Address& address : resolve(host, std::to_string(port), true)) {
      Socket one(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      int yes = 1;
      ::setsockopt(one.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      if (address.storage.ss_family == AF_INET6) ::setsockopt(one.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
      if (::bind(one.fd(), address.get(), address.size) != 0 || ::listen(one.fd(), 1024) != 0)
        throw Broken(reason("cannot listen at " + host + ":" + std::to_string(port)));
      sockets.push_back(std::move(one));
    }
    Socket shared(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Address address = shared_address(job, port);
    // Without it, readers on this host come as all others do.
    if (::bind(shared.fd(), address.get(), address.size) == 0 && ::listen(shared.fd(), 64) == 0)
      sockets.push_back(std::move(shared));
    return sockets;
  }

  void admit(Socket& socket) {
    quicken(socket.fd());
    Mode mode;
    auto place = std::make_unique<Unproved>(*this, &socket);
    Records records = prove_as_server(
        socket, job_.key, job_.name, [&](Mode wanted) { check(wanted, socket); }, &mode, after(kHandshakeSeconds));
    place.reset();
    if (mode == Mode::kControl) {
      Tls tls(socket, job_.key, false, after(kHandshakeSeconds));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::snprintf(address.sun_path, sizeof address.sun_path, "%s", file_.c_str());
      Socket inner(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(inner.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        throw Broken(reason("the server's own socket"));
      pump(inner, socket, tls);
      return;
    }
    Serve serve;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      serve = serve_;
    }
    if (serve) serve(socket, mode, std::move(records));
  }

  // Raises Distrusted for a mode that this server does not offer on this socket.
  void check(Mode mode, const Socket& socket) const {
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size);
    if (mode > Mode::kShared) throw Distrusted("the peer wants a connection that is not of tf.data service");
    if (mode == Mode::kControl) return;
    if ((own.ss_family == AF_UNIX) != (mode == Mode::kShared)) throw Distrusted("memory is shared on one host only");
    if (job_.encrypted && mode == Mode::kBatches) throw Distrusted("batches of this job are encrypted");
  }

  // A connection that has not proved the key. Beyond the limit, the oldest one ends for the next: who knows the key needs
  // a few round trips, so is hardly ever the oldest, and dials again if it is.
  class Unproved {
   public:
    Unproved(Listener& listener, Socket* socket) : listener_(listener), socket_(socket) {
      std::lock_guard<std::mutex> lock(listener_.mutex_);
      std::list<Socket*>& all = listener_.unproved_;
      if (all.size() >= kMostUnproved) {
        all.front()->end();
        all.pop_front();
      }
      all.push_back(socket);
    }
    ~Unproved() {
      std::lock_guard<std::mutex> lock(listener_.mutex_);
      listener_.unproved_.remove(socket_);
    }

   private:
    Listener& listener_;
    Socket* const socket_;
  };

  const Job& job_;
  const std::string file_;
  std::mutex mutex_;
  Serve serve_;
  std::list<Socket*> unproved_;
  Servants servants_;
  Acceptor acceptor_;  // ends first
};

// An IPv4 address with its port, also where a socket of IPv6 has it; 0: another one.
inline uint64_t ipv4_of(int (*ask)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_storage found{};
  socklen_t size = sizeof found;
  if (ask(fd, reinterpret_cast<sockaddr*>(&found), &size) != 0) return 0;
  uint32_t address = 0;
  if (found.ss_family == AF_INET) {
    address = reinterpret_cast<sockaddr_in&>(found).sin_addr.s_addr;
  } else if (found.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<sockaddr_in6&>(found).sin6_addr)) {
    std::memcpy(&address, &reinterpret_cast<sockaddr_in6&>(found).sin6_addr.s6_addr[12], sizeof address);
  } else {
    return 0;
  }
  return static_cast<uint64_t>(address) << 16 | reinterpret_cast<sockaddr_in&>(found).sin_port;
}

// Whether the other end of a loopback connection is a socket of this process: no other may use its tunnels.
inline bool is_own(const Socket& socket) {
  const uint64_t here = ipv4_of(::getsockname, socket.fd()), there = ipv4_of(::getpeername, socket.fd());
  bool own = false;
  if (DIR* folder = there == 0 ? nullptr : ::opendir("/proc/self/fd")) {
    while (dirent* entry = own ? nullptr : ::readdir(folder)) {
      const int fd = std::atoi(entry->d_name);
      own = ipv4_of(::getsockname, fd) == there && ipv4_of(::getpeername, fd) == here;
    }
    ::closedir(folder);
  }
  return own;
}

// The near ends of this process's control connections, one for each server that it has dialled.
class Tunnels {
 public:
  explicit Tunnels(const Job& job) : job_(job) {}

  // Where this process's gRPC dials to reach `target`, HOST:PORT. Raises Broken.
  std::string to(const std::string& target) { return tunnel(target).address; }

  // From now on, connections to `target` are answered with an error.
  void refuse(const std::string& target, const Refusal& refusal) {
    Tunnel& one = tunnel(target);
    std::lock_guard<std::mutex> lock(one.mutex);
    one.refusal = std::make_unique<Refusal>(refusal);
  }

 private:
  struct Tunnel {
    Tunnel(const Job& job, const std::string& target) {
      if (!split_target(target, &host, &port)) throw Broken(target + " is not HOST:PORT");
      std::vector<Socket> listening;
      listening.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in here{};
      here.sin_family = AF_INET;
      here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof here;
      auto* at = reinterpret_cast<sockaddr*>(&here);
      if (::bind(listening[0].fd(), at, size) != 0 || ::listen(listening[0].fd(), 64) != 0 ||
          ::getsockname(listening[0].fd(), at, &size) != 0)
        throw Broken(reason("a socket on loopback"));
      address = "127.0.0.1:" + std::to_string(ntohs(here.sin_port));
      spare = std::make_unique<Spare>(job, host, port);
      acceptor = std::make_unique<Acceptor>(std::move(listening), [this](Socket one) {
        servants.serve(std::move(one), [this](Socket& near) { carry(near); });
      });
    }
    void carry(Socket& near) {
      if (!is_own(near)) return;
      quicken(near.fd());
      if (std::unique_ptr<GrpcError> error = refused()) error->serve(near);
      std::unique_ptr<Far> far;
      try {
        far = spare->take();
      } catch (const Distrusted& error) {  // Far has reported it
        throw Broken(error.what());
      }
      pump(near, far->socket, *far->tls);
    }
    std::unique_ptr<GrpcError> refused() {
      std::lock_guard<std::mutex> lock(mutex);
      return refusal ? std::make_unique<GrpcError>(*refusal) : nullptr;
    }
    std::string host, port, address;
    std::mutex mutex;
    std::unique_ptr<Refusal> refusal;
    std::unique_ptr<Spare> spare;
    Servants servants;
    std::unique_ptr<Acceptor> acceptor;
  };

  Tunnel& tunnel(const std::string& target) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Tunnel>& one = by_target_[target];
    if (!one) one = std::make_unique<Tunnel>(job_, target);
    return *one;
  }

  const Job& job_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Tunnel>> by_target_;
};

}  // namespace tfhet
