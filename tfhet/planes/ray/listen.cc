// Preloaded by the processes of a Ray node: their servers listen at the node's own address only.
//
// Ray's C++ processes listen at all addresses of a host, whatever --node-ip-address says (Ray 2.60: GrpcServer::Run). This bind
// turns "all addresses" into the address in TFHET_LISTEN_AT, for the ports in TFHET_LISTEN_PORTS, which are numbers with
// commas around each; and into the loopback for those in TFHET_LOOPBACK_PORTS. All else is as it was.

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

namespace {

using Bind = int (*)(int, const sockaddr*, socklen_t);

bool is_in(const char* variable, in_port_t port) {
  const char* ports = getenv(variable);
  char one[16];
  snprintf(one, sizeof one, ",%u,", ntohs(port));
  return port != 0 && ports != nullptr && strstr(ports, one) != nullptr;
}

// The address at which to listen at a port; null to leave it as it is.
const char* address_for(in_port_t port) {
  if (is_in("TFHET_LOOPBACK_PORTS", port)) return "127.0.0.1";
  return is_in("TFHET_LISTEN_PORTS", port) ? getenv("TFHET_LISTEN_AT") : nullptr;
}

}  // namespace

extern "C" int bind(int fd, const sockaddr* address, socklen_t length) {
  static const Bind real = reinterpret_cast<Bind>(dlsym(RTLD_NEXT, "bind"));
  if (address == nullptr) return real(fd, address, length);
  in_addr four;
  in6_addr six;
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in own;
    memcpy(&own, address, sizeof own);
    const char* at = address_for(own.sin_port);
    if (own.sin_addr.s_addr == htonl(INADDR_ANY) && at != nullptr && inet_pton(AF_INET, at, &four) == 1) {
      own.sin_addr = four;
      return real(fd, reinterpret_cast<sockaddr*>(&own), sizeof own);
    }
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 own;
    memcpy(&own, address, sizeof own);
    const char* at = address_for(own.sin6_port);
    const bool is_any = IN6_IS_ADDR_UNSPECIFIED(&own.sin6_addr) ||
                        (IN6_IS_ADDR_V4MAPPED(&own.sin6_addr) && memcmp(&own.sin6_addr.s6_addr[12], "\0\0\0\0", 4) == 0);
    if (is_any && at != nullptr) {
      if (inet_pton(AF_INET, at, &four) == 1) {
        memset(&own.sin6_addr, 0, sizeof own.sin6_addr);
        own.sin6_addr.s6_addr[10] = own.sin6_addr.s6_addr[11] = 0xff;
        memcpy(&own.sin6_addr.s6_addr[12], &four, 4);
      } else if (inet_pton(AF_INET6, at, &six) == 1) {
        own.sin6_addr = six;
      }
      return real(fd, reinterpret_cast<sockaddr*>(&own), sizeof own);
    }
  }
  return real(fd, address, length);
}
