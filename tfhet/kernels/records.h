// TFRecord files: their framing and its checksums.

#pragma once

#include <array>

#include "file.h"

namespace tfhet::records {

// ---------------------------------------------------------------- CRC-32C

#if defined(__SSE4_2__) && defined(__x86_64__)
inline uint64_t crc_word(uint64_t crc, uint64_t word) { return __builtin_ia32_crc32di(crc, word); }
inline uint32_t crc_byte(uint32_t crc, uint8_t byte) { return __builtin_ia32_crc32qi(crc, byte); }
#else
constexpr std::array<uint32_t, 256> byte_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[byte] = crc;
  }
  return table;
}
inline constexpr auto kByteTable = byte_table();
inline uint32_t crc_byte(uint32_t crc, uint8_t byte) { return crc >> 8 ^ kByteTable[(crc ^ byte) & 0xff]; }
inline uint64_t crc_word(uint64_t crc, uint64_t word) {
  for (int i = 0; i < 8; ++i) crc = crc_byte(static_cast<uint32_t>(crc), static_cast<uint8_t>(word >> 8 * i));
  return crc;
}
#endif

inline uint64_t word_at(const uint8_t* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The instruction takes three cycles but can begin in each of them: three pieces of kPiece bytes at a time. `kBehind`
// moves a checksum over kPiece bytes of zeros, which is how those of the pieces become one (M. Adler's crc32c.c).
inline constexpr size_t kPiece = 512;

struct Behind {
  uint32_t table[4][256];
  Behind() {
    for (int place = 0; place < 4; ++place)
      for (uint32_t byte = 0; byte < 256; ++byte) {
        uint64_t crc = byte << 8 * place;
        for (size_t i = 0; i < kPiece; i += 8) crc = crc_word(crc, 0);
        table[place][byte] = static_cast<uint32_t>(crc);
      }
  }
  uint32_t operator()(uint64_t crc) const {
    return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^ table[3][crc >> 24 & 0xff];
  }
};
inline const Behind kBehind;

inline uint32_t crc32c(const uint8_t* at, size_t size) {
  uint64_t crc = 0xffffffff;
  for (; size >= 3 * kPiece; at += 3 * kPiece, size -= 3 * kPiece) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kPiece; i += 8) {
      crc = crc_word(crc, word_at(at + i));
      second = crc_word(second, word_at(at + kPiece + i));
      third = crc_word(third, word_at(at + 2 * kPiece + i));
    }
    crc = kBehind(kBehind(crc) ^ second) ^ third;
  }
  for (; size >= 8; at += 8, size -= 8) crc = crc_word(crc, word_at(at));
  for (; size > 0; ++at, --size) crc = crc_byte(static_cast<uint32_t>(crc), *at);
  return ~static_cast<uint32_t>(crc);
}

inline bool is_masked(uint32_t stored, const uint8_t* at, size_t size) {
  const uint32_t crc = crc32c(at, size);
  return stored == (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// ---------------------------------------------------------------- framing

// A record is its length (8 bytes) with a checksum (4), and its data with a checksum (4).
inline constexpr size_t kHeader = 12, kFooter = 4;

inline uint32_t stored(const uint8_t* at) {
  uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline bool is_header(const uint8_t* at) { return is_masked(stored(at + 8), at, 8); }

// Whether the checksum after the data of a record is right.
inline bool is_sound(const uint8_t* data, size_t size) { return is_masked(stored(data + size), data, size); }

// Returns the bytes of data of the record whose header is at `header`, and byte `offset` of its file.
inline uint64_t data_bytes(const File& file, const uint8_t* header, int64_t offset) {
  if (!is_header(header)) file.broken(offset, "wrong checksum of the length");
  const uint64_t size = word_at(header);
  if (size > INT64_MAX / 2) file.broken(offset, "impossible length of the record");
  return size;
}

// Calls record(offset) for the first `most` records of a file, from length to length, and end(offset, reason) for the byte
// after the last one. The reason says why the file breaks off there; it is empty if the file ends there, or after `most`
// records. Lengths and their checksums are looked at, not the data.
template <class Record, class End>
void walk(const File& file, int64_t most, const Record& record, const End& end) {
  constexpr size_t kWindow = 4096;  // a page, which is what the system reads for a header anyway
  const uint64_t size = file.size();
  uint8_t memory[kWindow];
  std::string reason;
  uint64_t at = 0, from = 0, held = 0;
  for (int64_t count = 0; count < most && at < size; ++count) {
    if (at < from || at + kHeader > from + held) {
      from = at;
      held = file.read(memory, kWindow, static_cast<int64_t>(at));
    }
    const uint64_t seen = std::min<uint64_t>(from + held, size) - at;
    if (seen < kHeader) {
      reason = "the file ends inside a record's header, " + std::to_string(seen) + " bytes into it";
      break;
    }
    const uint8_t* header = memory + (at - from);
    if (!is_header(header)) {
      reason = std::string("the length's checksum is wrong") + (at == 0 ? ": is this a TFRecord file?" : "");
      break;
    }
    const uint64_t length = word_at(header), left = size - at - kHeader;
    if (left < kFooter || length > left - kFooter) {
      reason = "the file ends inside a record, " + std::to_string(length + kFooter - left) + " bytes too early";
      break;
    }
    record(static_cast<int64_t>(at));
    at += kHeader + length + kFooter;
  }
  end(static_cast<int64_t>(at), reason);
}

}  // namespace tfhet::records
