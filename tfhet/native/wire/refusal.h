// An answer to all calls of a gRPC client: one error.
//
// When a reader gets an error of the pipeline over a protocol that is not gRPC, TensorFlow takes the protocol for broken and
// asks the same worker by gRPC, which goes on behind the error (2.15.1: data_service_client.cc). So what it dials then
// answers with the error again, which TensorFlow passes on. It takes as much of HTTP/2 (RFC 9113) as gRPC needs for an
// answer without a body; what the client says is not looked at.

#pragma once

#include <string>

#include "socket.h"

namespace tfhet {

struct Refusal {
  int code;  // of the status
  std::string message;
};

class GrpcError {
 public:
  explicit GrpcError(const Refusal& refusal) {
    field(":status", "200");
    field("content-type", "application/grpc");
    field("grpc-status", std::to_string(refusal.code));
    std::string message;
    for (unsigned char byte : refusal.message.substr(0, kMostMessage)) {
      if (byte >= ' ' && byte <= '~' && byte != '%') {
        message += static_cast<char>(byte);
      } else {
        char escaped[4];
        std::snprintf(escaped, sizeof escaped, "%%%02X", byte);
        message += escaped;
      }
    }
    field("grpc-message", message);
  }

  // Answers until the client ends the connection. Raises Broken then.
  void serve(const Socket& client) const {
    char preface[24];
    client.read(preface, sizeof preface);
    send(client, kSettings, 0, 0, "");
    for (;;) {
      unsigned char head[9];
      client.read(head, sizeof head);
      std::string body(head[0] << 16 | head[1] << 8 | head[2], '\0');
      client.read(&body[0], body.size());
      const int type = head[3], flags = head[4];
      const uint32_t stream = (head[5] & 0x7fu) << 24 | head[6] << 16 | head[7] << 8 | head[8];
      if ((type == kSettings || type == kPing) && (flags & kAck) == 0)
        send(client, type, kAck, 0, type == kPing ? body : "");
      if ((type == kData || type == kHeaders) && (flags & kEndStream) != 0)
        send(client, kHeaders, kEndStream | kEndHeaders, stream, fields_);
    }
  }

 private:
  static constexpr int kData = 0, kHeaders = 1, kSettings = 4, kPing = 6;
  static constexpr int kAck = 1, kEndStream = 1, kEndHeaders = 4;
  static constexpr size_t kMostMessage = 4000;  // a frame has room for 16,384 bytes

  // A literal that is not indexed, with a name that is new (RFC 7541, 6.2.2).
  void field(const std::string& name, const std::string& value) {
    fields_ += '\0';
    for (const std::string& text : {name, value}) {
      size_t length = text.size();
      if (length < 127) {
        fields_ += static_cast<char>(length);
      } else {
        fields_ += '\x7f';
        for (length -= 127; length >= 128; length /= 128) fields_ += static_cast<char>(length % 128 + 128);
        fields_ += static_cast<char>(length);
      }
      fields_ += text;
    }
  }

  static void send(const Socket& to, int type, int flags, uint32_t stream, const std::string& body) {
    std::string frame;
    for (size_t part : {body.size() >> 16, body.size() >> 8, body.size()}) frame += static_cast<char>(part);
    frame += static_cast<char>(type);
    frame += static_cast<char>(flags);
    for (uint32_t part : {stream >> 24, stream >> 16, stream >> 8, stream}) frame += static_cast<char>(part);
    frame += body;
    to.write(frame.data(), frame.size());
  }

  std::string fields_;
};

}  // namespace tfhet
