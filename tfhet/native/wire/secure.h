// The protocol of every connection, as tfhet/secure/handshake.py describes it: the handshake, records with tags, and TLS 1.3
// for encrypted connections, in which both sides show the one certificate of the job. Its Ed25519 key is made from the
// job's key, so there is nothing to hand out. The cryptography is BoringSSL's, which TensorFlow's library exports (2.15.1
// and 2.21); what is used of it is declared here, since the wheel has no headers of it.

#pragma once

#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "socket.h"

extern "C" {
typedef struct env_md_st EVP_MD;
typedef struct evp_pkey_st EVP_PKEY;
typedef struct x509_st X509;
typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_method_st SSL_METHOD;
typedef struct asn1_string_st ASN1_INTEGER;
typedef struct asn1_string_st ASN1_TIME;
typedef struct X509_name_st X509_NAME;
typedef struct bio_st BIO;
typedef struct bio_method_st BIO_METHOD;

const EVP_MD* EVP_sha256(void);
unsigned char* HMAC(const EVP_MD*, const void*, size_t, const unsigned char*, size_t, unsigned char*, unsigned int*);
int CRYPTO_memcmp(const void*, const void*, size_t);
int RAND_bytes(unsigned char*, size_t);
EVP_PKEY* EVP_PKEY_new_raw_private_key(int, void*, const unsigned char*, size_t);
void EVP_PKEY_free(EVP_PKEY*);
X509* X509_new(void);
void X509_free(X509*);
int X509_set_version(X509*, long);
int X509_set_pubkey(X509*, EVP_PKEY*);
int X509_sign(X509*, EVP_PKEY*, const EVP_MD*);
int X509_cmp(const X509*, const X509*);
ASN1_INTEGER* X509_get_serialNumber(X509*);
int ASN1_INTEGER_set(ASN1_INTEGER*, long);
ASN1_TIME* X509_getm_notBefore(X509*);
ASN1_TIME* X509_getm_notAfter(X509*);
ASN1_TIME* ASN1_TIME_set(ASN1_TIME*, time_t);
const SSL_METHOD* TLS_method(void);
SSL_CTX* SSL_CTX_new(const SSL_METHOD*);
void SSL_CTX_free(SSL_CTX*);
int SSL_CTX_set_min_proto_version(SSL_CTX*, uint16_t);
int SSL_CTX_use_certificate(SSL_CTX*, X509*);
int SSL_CTX_use_PrivateKey(SSL_CTX*, EVP_PKEY*);
int SSL_CTX_set_verify_algorithm_prefs(SSL_CTX*, const uint16_t*, size_t);
int SSL_CTX_set_signing_algorithm_prefs(SSL_CTX*, const uint16_t*, size_t);
int SSL_CTX_set_session_cache_mode(SSL_CTX*, int);
void SSL_CTX_set_custom_verify(SSL_CTX*, int, int (*)(SSL*, uint8_t*));
uint32_t SSL_CTX_set_mode(SSL_CTX*, uint32_t);
uint32_t SSL_CTX_set_options(SSL_CTX*, uint32_t);
SSL* SSL_new(SSL_CTX*);
void SSL_free(SSL*);
void SSL_set_bio(SSL*, BIO*, BIO*);
void SSL_set_connect_state(SSL*);
void SSL_set_accept_state(SSL*);
int SSL_do_handshake(SSL*);
int SSL_read(SSL*, void*, int);
int SSL_write(SSL*, const void*, int);
int SSL_pending(const SSL*);
int SSL_get_error(const SSL*, int);
int SSL_shutdown(SSL*);
X509* SSL_get_peer_certificate(const SSL*);
X509* SSL_get_certificate(const SSL*);
BIO* BIO_new(const BIO_METHOD*);
BIO_METHOD* BIO_meth_new(int, const char*);
int BIO_meth_set_read(BIO_METHOD*, int (*)(BIO*, char*, int));
int BIO_meth_set_write(BIO_METHOD*, int (*)(BIO*, const char*, int));
int BIO_meth_set_ctrl(BIO_METHOD*, long (*)(BIO*, int, long, void*));
void BIO_set_data(BIO*, void*);
void* BIO_get_data(BIO*);
void BIO_set_init(BIO*, int);
void BIO_set_retry_read(BIO*);
void BIO_set_retry_write(BIO*);
void BIO_clear_retry_flags(BIO*);
void ERR_clear_error(void);
}

namespace tfhet {

constexpr double kHandshakeSeconds = 10.0;
constexpr char kMagic[] = {'t', 'f', 'h', 'e', 't', '-', 'c', '2'};
constexpr size_t kProof = 32, kTag = 16, kRecordHead = 16 + kTag;  // bytes

// The purposes of connections; `Purpose` in tfhet/secure/handshake.py has those of all planes.
enum class Mode : uint8_t { kBatches = 0, kEncryptedBatches = 1, kControl = 2, kShared = 3 };

struct Hello {
  char magic[8];
  uint8_t mode;
  uint8_t name_size;
  uint8_t nonce[32];
};
struct Reply {
  char magic[8];
  uint8_t nonce[32];
};
static_assert(sizeof(Hello) == 42 && sizeof(Reply) == 40, "no gaps");

// A peer without the key, or a machine on the way that interferes: worth a line in the log.
struct Distrusted : Broken {
  using Broken::Broken;
};

inline std::string peer_of(int fd) {
  sockaddr_storage found{};
  socklen_t size = sizeof found;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&found), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&found), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "a peer";
  return std::string(host) + ":" + port;
}

// Writes why a connection was ended: for the first 10 of them, and then when their number is a power of two.
inline void report(const std::string& peer, const std::string& why) {
  static std::atomic<uint64_t> count{0};
  const uint64_t number = ++count;
  if (number > 10 && (number & (number - 1)) != 0) return;
  const std::string line = "tfhet: ended a connection with " + peer + ": " + why + " (" + std::to_string(number) + " so far)\n";
  std::cerr << line << std::flush;
}

inline std::string hmac(const std::string& key, const std::string& data) {
  unsigned char digest[32];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), key.size(), reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest,
       &size);
  return std::string(reinterpret_cast<char*>(digest), size);
}

// HKDF-Expand of RFC 5869, to 32 bytes.
inline std::string expanded(const std::string& key, const std::string& purpose) { return hmac(key, purpose + '\1'); }

// The key of one job's data plane, and what is made from it.
class Key {
 public:
  explicit Key(std::string key) : key_(std::move(key)) {
    constexpr int kEd25519 = 949, kVerifyPeer = 1 | 2;
    constexpr uint16_t kTls13 = 0x0304, kSignEd25519 = 0x0807;
    constexpr uint32_t kPartialWrite = 1, kMovingBuffer = 2, kNoTicket = 1 << 14;
    const std::string seed = expanded(key_, "certificate");
    pair_ = EVP_PKEY_new_raw_private_key(kEd25519, nullptr, reinterpret_cast<const unsigned char*>(seed.data()), 32);
    certificate_ = X509_new();
    // The same bytes on every host: nothing in them is random, and Ed25519 signatures are not either.
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    ASN1_TIME_set(X509_getm_notBefore(certificate_), 0);
    ASN1_TIME_set(X509_getm_notAfter(certificate_), 0x7fffffff);
    X509_set_pubkey(certificate_, pair_);
    tls_ = SSL_CTX_new(TLS_method());
    if (pair_ == nullptr || X509_sign(certificate_, pair_, nullptr) == 0 || tls_ == nullptr ||
        SSL_CTX_set_min_proto_version(tls_, kTls13) == 0 || SSL_CTX_use_certificate(tls_, certificate_) == 0 ||
        SSL_CTX_use_PrivateKey(tls_, pair_) == 0)
      throw std::runtime_error("the job's certificate cannot be made");
    SSL_CTX_set_verify_algorithm_prefs(tls_, &kSignEd25519, 1);
    SSL_CTX_set_signing_algorithm_prefs(tls_, &kSignEd25519, 1);
    SSL_CTX_set_session_cache_mode(tls_, 0);
    SSL_CTX_set_options(tls_, kNoTicket);
    SSL_CTX_set_mode(tls_, kPartialWrite | kMovingBuffer);
    SSL_CTX_set_custom_verify(tls_, kVerifyPeer, [](SSL* ssl, uint8_t*) {
      X509* theirs = SSL_get_peer_certificate(ssl);
      const bool same = theirs != nullptr && X509_cmp(theirs, SSL_get_certificate(ssl)) == 0;
      X509_free(theirs);
      return same ? 0 : 1;  // ssl_verify_ok, ssl_verify_invalid
    });
  }
  Key(const Key&) = delete;
  ~Key() {
    SSL_CTX_free(tls_);
    X509_free(certificate_);
    EVP_PKEY_free(pair_);
  }

  const std::string& bytes() const { return key_; }
  std::string derived(const std::string& purpose) const { return expanded(key_, purpose); }
  SSL_CTX* tls() const { return tls_; }

 private:
  std::string key_;
  EVP_PKEY* pair_;
  X509* certificate_;
  SSL_CTX* tls_;
};

inline bool same(const std::string& one, const char* other) { return CRYPTO_memcmp(one.data(), other, one.size()) == 0; }

// The tags of one direction.
class Tags {
 public:
  explicit Tags(std::string key) : key_(std::move(key)) {}
  std::string next(const char* data, size_t size) {
    std::string counted = big_endian(++count_);
    counted.append(data, size);
    return hmac(key_, counted).substr(0, kTag);
  }
  static std::string big_endian(uint64_t number) {
    std::string bytes(8, '\0');
    for (int at = 7; at >= 0; --at, number >>= 8) bytes[at] = static_cast<char>(number);
    return bytes;
  }

 private:
  std::string key_;
  uint64_t count_ = 0;
};

// Seals and opens the records of one connection.
class Records {
 public:
  struct Lengths {
    uint64_t message, data;
  };
  Records(std::string sends, std::string receives) : sends_(std::move(sends)), receives_(std::move(receives)) {}

  // The record of a message, up to its data.
  std::string sealed(const std::string& message, uint64_t data) {
    std::string record = Tags::big_endian(message.size()) + Tags::big_endian(data);
    record += sends_.next(record.data(), record.size());
    record += message;
    record += sends_.next(message.data(), message.size());
    return record;
  }
  // head: kRecordHead bytes. Raises Distrusted, or Broken for a message of more than `most` bytes.
  Lengths lengths(const char* head, uint64_t most) {
    check(head, 16);
    Lengths found{};
    for (int at = 0; at < 8; ++at) {
      found.message = found.message << 8 | static_cast<unsigned char>(head[at]);
      found.data = found.data << 8 | static_cast<unsigned char>(head[8 + at]);
    }
    if (found.message > most) throw Broken("a message of " + std::to_string(found.message) + " bytes");
    return found;
  }
  // body: a message and its tag, which goes. Raises Distrusted.
  void open(std::string* body) {
    check(body->data(), body->size() - kTag);
    body->resize(body->size() - kTag);
  }

 private:
  void check(const char* data, size_t size) {
    if (!same(receives_.next(data, size), data + size))
      throw Distrusted(
          "a record was changed, added, repeated, reordered or dropped on the way: a machine between the hosts "
          "interferes with the connection");
  }
  Tags sends_, receives_;
};

// Proofs and keys of one handshake. said: all bytes of its first two messages.
struct Schedule {
  Schedule(const Key& key, const std::string& said) : session(hmac(said, key.bytes())) {}
  std::string proof(const char* side) const { return expanded(session, std::string(side) + " proof"); }
  std::string tags(const char* side) const { return expanded(session, std::string(side) + " tags"); }
  const std::string session;
};

inline void check_version(const char* magic) {
  if (std::memcmp(magic, kMagic, sizeof kMagic) != 0)
    throw Distrusted("the other side speaks another version: install the same version of tfhet there");
}

// Proves the key to the server that was dialled as `name`, and lets it prove that it has it, too.
inline Records prove_as_client(const Socket& socket, const Key& key, Mode mode, const std::string& name, Moment until) {
  Hello hello;
  std::memcpy(hello.magic, kMagic, sizeof kMagic);
  hello.mode = static_cast<uint8_t>(mode);
  hello.name_size = static_cast<uint8_t>(std::min<size_t>(name.size(), 255));
  RAND_bytes(hello.nonce, sizeof hello.nonce);
  std::string said(reinterpret_cast<char*>(&hello), sizeof hello);
  said += name.substr(0, hello.name_size);
  socket.write(said.data(), said.size(), until);
  Reply reply;
  socket.read(&reply, sizeof reply, until);
  check_version(reply.magic);
  said.append(reinterpret_cast<char*>(&reply), sizeof reply);
  const Schedule schedule(key, said);
  const std::string own = schedule.proof("client");
  socket.write(own.data(), own.size(), until);
  char proof[kProof];
  socket.read(proof, sizeof proof, until);
  if (!same(schedule.proof("server"), proof)) throw Distrusted("the host that was dialled is not of this job");
  return Records(schedule.tags("client"), schedule.tags("server"));
}

// Lets a client that calls this server `name` prove the key, and proves that it has it, too. check: raises Distrusted for a
// mode that this server does not offer. Raises Distrusted, having said nothing that depends on the key.
inline Records prove_as_server(const Socket& socket, const Key& key, const std::string& name,
                               const std::function<void(Mode)>& check, Mode* mode, Moment until) {
  Hello hello;
  socket.read(&hello, sizeof hello, until);
  if (std::memcmp(hello.magic, kMagic, sizeof kMagic - 1) != 0) throw Distrusted("not a connection of tfhet's");
  std::string said(reinterpret_cast<char*>(&hello), sizeof hello), dialled(hello.name_size, '\0');
  socket.read(&dialled[0], dialled.size(), until);
  said += dialled;
  Reply reply;
  std::memcpy(reply.magic, kMagic, sizeof kMagic);
  RAND_bytes(reply.nonce, sizeof reply.nonce);
  socket.write(&reply, sizeof reply, until);
  check_version(hello.magic);
  said.append(reinterpret_cast<char*>(&reply), sizeof reply);
  const Schedule schedule(key, said);
  char proof[kProof];
  socket.read(proof, sizeof proof, until);
  if (!same(schedule.proof("client"), proof)) throw Distrusted("the peer does not know the job's secret");
  if (dialled != name.substr(0, 255)) throw Distrusted("the peer has dialled " + dialled + ", and this is " + name);
  *mode = static_cast<Mode>(hello.mode);
  check(*mode);
  const std::string own = schedule.proof("server");
  socket.write(own.data(), own.size(), until);
  return Records(schedule.tags("server"), schedule.tags("client"));
}

// TLS 1.3 on a socket that has passed the proofs. Used by one thread. A record has at most 16 KiB; several are received, and
// those of `write` are sent, by one call of the kernel.
class Tls {
 public:
  Tls(const Socket& socket, const Key& key, bool is_client, Moment until) : socket_(socket), ssl_(SSL_new(key.tls())) {
    BIO* bio = BIO_new(method());
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    is_client ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
    int code;
    while ((code = step([this] { return SSL_do_handshake(ssl_); })) != 1) {
      if (code == 0) {
        SSL_free(ssl_);
        throw Broken("the peer does not go on with TLS");
      }
      try {
        wait(code, until);
      } catch (const Broken&) {
        SSL_free(ssl_);
        throw;
      }
    }
  }
  Tls(const Tls&) = delete;
  ~Tls() {
    SSL_shutdown(ssl_);
    SSL_free(ssl_);
  }

  // Bytes moved; 0: the connection has ended; -POLLIN or -POLLOUT: the socket must be ready for that first.
  int read_some(void* into, size_t size) {
    return step([=] { return SSL_read(ssl_, into, static_cast<int>(std::min<size_t>(size, 1 << 20))); });
  }
  int write_some(const void* from, size_t size) {
    return step([=] { return SSL_write(ssl_, from, static_cast<int>(std::min<size_t>(size, 1 << 20))); });
  }
  bool has_read() const { return SSL_pending(ssl_) > 0 || in_at_ < in_end_; }

  void read(void* into, size_t size, Moment until = kNever) {
    for (auto* at = static_cast<char*>(into); size > 0;) {
      const int got = read_some(at, size);
      if (got == 0) throw Broken("the peer has closed the connection");
      if (got < 0) {
        wait(got, until);
      } else {
        at += got, size -= got;
      }
    }
  }
  void write(const std::vector<iovec>& pieces) {
    out_.reserve(2 * kTogether);
    is_gathering_ = true;
    for (const iovec& piece : pieces) {
      auto* at = static_cast<const char*>(piece.iov_base);
      for (size_t size = piece.iov_len; size > 0;) {
        const int sent = write_some(at, std::min(size, kTogether));
        if (sent <= 0) throw Broken("the peer has closed the connection");
        at += sent, size -= sent;
        if (out_.size() >= kTogether) send_gathered();
      }
    }
    send_gathered();
    is_gathering_ = false;
  }

 private:
  template <class Call>
  int step(Call call) {
    ERR_clear_error();
    const int code = call();
    if (code > 0) return code;
    constexpr int kFailed = 1, kWantRead = 2, kWantWrite = 3;
    switch (SSL_get_error(ssl_, code)) {
      case kWantRead:
        return -POLLIN;
      case kWantWrite:
        return -POLLOUT;
      case kFailed:
        report(peer_of(socket_.fd()), "what it sends is not of the job's TLS: a machine between the hosts interferes");
        return 0;
      default:
        return 0;
    }
  }
  void wait(int code, Moment until) { socket_.wait(static_cast<short>(-code), until); }

  void send_gathered() {
    socket_.write(out_.data(), out_.size());
    out_.clear();
  }

  // The functions by which BoringSSL receives and sends: with the results of recv(2) and send(2).
  static const BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* one = BIO_meth_new(0, "tfhet");
      BIO_meth_set_read(one, [](BIO* bio, char* into, int size) {
        BIO_clear_retry_flags(bio);
        const int got = static_cast<Tls*>(BIO_get_data(bio))->receive(into, size);
        if (got < 0 && is_for_later()) BIO_set_retry_read(bio);
        return got;
      });
      BIO_meth_set_write(one, [](BIO* bio, const char* from, int size) {
        BIO_clear_retry_flags(bio);
        const int sent = static_cast<Tls*>(BIO_get_data(bio))->send(from, size);
        if (sent < 0 && is_for_later()) BIO_set_retry_write(bio);
        return sent;
      });
      BIO_meth_set_ctrl(one, [](BIO*, int, long, void*) { return 1L; });  // nothing is held back: a flush is done
      return one;
    }();
    return made;
  }
  static bool is_for_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }
  int receive(char* into, size_t size) {
    if (in_at_ == in_end_) {
      if (size >= kTogether) return static_cast<int>(::recv(socket_.fd(), into, size, 0));
      if (in_end_ == in_.size()) in_.resize(in_.empty() ? kFirst : kTogether);
      const ssize_t got = ::recv(socket_.fd(), in_.data(), in_.size(), 0);
      if (got <= 0) return static_cast<int>(got);
      in_at_ = 0, in_end_ = got;
    }
    size = std::min(size, in_end_ - in_at_);
    std::memcpy(into, in_.data() + in_at_, size);
    in_at_ += size;
    return static_cast<int>(size);
  }
  int send(const char* from, size_t size) {
    if (!is_gathering_) return static_cast<int>(::send(socket_.fd(), from, size, MSG_NOSIGNAL));
    out_.insert(out_.end(), from, from + size);
    return static_cast<int>(size);
  }

  static constexpr size_t kTogether = 128 << 10;  // bytes; they stay in the cache of a CPU
  static constexpr size_t kFirst = 16 << 10;      // bytes; as much as most control connections ever use at a time
  const Socket& socket_;
  SSL* ssl_;
  std::vector<char> in_, out_;
  size_t in_at_ = 0, in_end_ = 0;
  bool is_gathering_ = false;
};

}  // namespace tfhet
