// Preloaded by the processes of a Ray node: their servers listen at the node's own address only.
//
// Ray's C++ processes listen at all addresses of a host, whatever --node-ip-address says (Ray 2.60: GrpcServer::Run). This bind
// turns "all addresses" into the address in TFHET_LISTEN_AT, for the ports in TFHET_LISTEN_PORTS, which are numbers with
// commas around each. All else is as it was.

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

namespace {

using Bind = int (*)(int, const sockaddr*, socklen_t);

bool is_ours(in_port_t port) {
  const char* ports = getenv("TFHET_LISTEN_PORTS");
  char one[16];
  snprintf(one, sizeof one, ",%u,", ntohs(port));
  return port != 0 && ports != nullptr && strstr(ports, one) != nullptr;
}

}  // namespace

extern "C" int bind(int fd, const sockaddr* address, socklen_t length) {
  static const Bind real = reinterpret_cast<Bind>(dlsym(RTLD_NEXT, "bind"));
  const char* at = getenv("TFHET_LISTEN_AT");
  if (at == nullptr || address == nullptr) return real(fd, address, length);
  in_addr four;
  in6_addr six;
  const bool is_four = inet_pton(AF_INET, at, &four) == 1;
  if (!is_four && inet_pton(AF_INET6, at, &six) != 1) return real(fd, address, length);
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in) && is_four) {
    sockaddr_in own;
    memcpy(&own, address, sizeof own);
    if (own.sin_addr.s_addr == htonl(INADDR_ANY) && is_ours(own.sin_port)) {
      own.sin_addr = four;
      return real(fd, reinterpret_cast<sockaddr*>(&own), sizeof own);
    }
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 own;
    memcpy(&own, address, sizeof own);
    const bool is_any = IN6_IS_ADDR_UNSPECIFIED(&own.sin6_addr) ||
                        (IN6_IS_ADDR_V4MAPPED(&own.sin6_addr) && memcmp(&own.sin6_addr.s6_addr[12], "\0\0\0\0", 4) == 0);
    if (is_any && is_ours(own.sin6_port)) {
      if (is_four) {
        memset(&own.sin6_addr, 0, sizeof own.sin6_addr);
        own.sin6_addr.s6_addr[10] = own.sin6_addr.s6_addr[11] = 0xff;
        memcpy(&own.sin6_addr.s6_addr[12], &four, 4);
      } else {
        own.sin6_addr = six;
      }
      return real(fd, reinterpret_cast<sockaddr*>(&own), sizeof own);
    }
  }
  return real(fd, address, length);
}
