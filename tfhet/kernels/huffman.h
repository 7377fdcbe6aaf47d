// The entropy decoding of ordinary JPEG images (sequential, Huffman, in one scan, without restarts), in place of
// libjpeg's own: most of the time of decoding goes there, and for a window most blocks need not be kept at all.
//
// A table look-up gives a coefficient with its value, or, where the block is not wanted, the lengths of two at once.
// Anything out of order is left to libjpeg, which begins again: it knows what can be saved and what to complain of.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include "failure.h"

namespace tfhet {

// Place of the k-th coefficient of a block. The places after the 64th are one that no later coefficient overwrites.
inline const uint8_t* zigzag() {
  static const struct Table {
    uint8_t place[256];
    Table() {
      int k = 0;
      for (int diagonal = 0; diagonal < 15; ++diagonal)
        for (int i = 0; i <= diagonal; ++i) {
          const int row = diagonal % 2 ? i : diagonal - i, column = diagonal - row;
          if (row < 8 && column < 8) place[k++] = static_cast<uint8_t>(8 * row + column);
        }
      while (k < 256) place[k++] = 63;
    }
  } table;
  return table.place;
}

// One Huffman code and all that can be known of the next bits in advance.
class HuffmanTable {
 public:
  static constexpr int LOOK = 11;        // bits of a look-up
  static constexpr int MOST = 18;        // bits that are passed over with one
  static constexpr int BLOCK_END = 128;  // what the end of a block adds to the place in it

  // False for a table that is none. `steps`: of coefficients with a run of zeros before each; else of differences.
  bool load(const JHUFF_TBL* from, bool steps) {
    if (from == nullptr) return false;
    if (loaded_ && steps == steps_ && std::memcmp(bits_, from->bits, sizeof(bits_)) == 0 &&
        std::memcmp(symbols_, from->huffval, sizeof(symbols_)) == 0)
      return true;
    std::memcpy(bits_, from->bits, sizeof(bits_));
    std::memcpy(symbols_, from->huffval, sizeof(symbols_));
    steps_ = steps;
    return loaded_ = build();
  }

  // Bits taken | places advanced << 8 | value << 16; 0: not to be known from so few bits.
  int32_t whole[1 << LOOK];
  // Bits taken, at most MOST, | places advanced << 8, of one or two; 0: not to be known.
  uint16_t two[1 << LOOK];

  int advance(int symbol) const {
    if (!steps_) return 0;
    const int run = symbol >> 4;
    return (symbol & 15) || run == 15 ? run + 1 : BLOCK_END;
  }

  // The length of the code that begins with the highest of these bits, and its symbol; 0: there is none.
  int code(uint64_t bits, int* symbol) const {
    if (const int known = codes_[bits >> (64 - LOOK)]; known) {
      *symbol = known & 255;
      return known >> 8;
    }
    for (int length = LOOK + 1; length <= 16; ++length) {
      const int32_t code = static_cast<int32_t>(bits >> (64 - length));
      if (code < end_[length]) {
        *symbol = symbols_[offset_[length] + code];
        return length;
      }
    }
    return 0;
  }

 private:
  bool build() {
    int32_t code = 0;
    int place = 0;
    std::memset(codes_, 0, sizeof(codes_));
    for (int length = 1; length <= 16; ++length) {
      offset_[length] = place - code;
      if (place + bits_[length] > 256 || code + bits_[length] > 1 << length) return false;
      for (int i = 0; length <= LOOK && i < bits_[length]; ++i)
        std::fill_n(codes_ + ((code + i) << (LOOK - length)), 1 << (LOOK - length),
                    static_cast<uint16_t>(length << 8 | symbols_[place + i]));
      place += bits_[length];
      code += bits_[length];
      end_[length] = bits_[length] ? code : 0;
      code <<= 1;
    }
    if (!steps_)
      for (int i = 0; i < place; ++i)
        if (symbols_[i] > 15) return false;
    for (int bits = 0; bits < 1 << LOOK; ++bits) {
      const int symbol = codes_[bits] & 255, length = codes_[bits] >> 8;
      const int size = symbol & 15, taken = length + size, step = advance(symbol);
      whole[bits] = 0;
      two[bits] = length && taken <= MOST ? static_cast<uint16_t>(taken | step << 8) : 0;
      if (!length || taken > LOOK) continue;
      const int value = extended((bits >> (LOOK - taken)) & ((1 << size) - 1), size);
      whole[bits] = taken | step << 8 | static_cast<int32_t>(static_cast<uint32_t>(value) << 16);
      if (step >= BLOCK_END) continue;
      const int behind = codes_[(bits << taken) & ((1 << LOOK) - 1)], more = behind >> 8, next = behind & 255;
      const int both = taken + more + (next & 15);
      if (more && taken + more <= LOOK && both <= MOST)
        two[bits] = static_cast<uint16_t>(both | (step + advance(next)) << 8);
    }
    return true;
  }

  static int extended(int value, int size) { return size && value < 1 << (size - 1) ? value - (1 << size) + 1 : value; }
  friend struct Bits;

  uint16_t codes_[1 << LOOK];  // the length of a code << 8 | its symbol; 0: it is longer
  UINT8 bits_[17], symbols_[256];
  int32_t end_[17];     // of each length: one behind the last code, 0 where there is none
  int32_t offset_[17];  // and what to add to a code for the place of its symbol
  bool loaded_ = false, steps_ = false;
};

// The next bits of the image, from the highest on. Small, so that it stays in registers.
struct Bits {
  const uint8_t* at;
  uint64_t buffer;
  int count;

  // At least 56. The bits after them are already there, too.
  void refill() {
    uint64_t bytes;
    std::memcpy(&bytes, at, sizeof(bytes));
    buffer |= __builtin_bswap64(bytes) >> count;
    at += (63 - count) >> 3;
    count |= 56;
  }

  void take(int taken) {
    buffer <<= taken;
    count -= taken;
  }

  int value(int size) {
    if (size == 0) return 0;
    const int value = HuffmanTable::extended(static_cast<int>(buffer >> (64 - size)), size);
    take(size);
    return value;
  }
};

class EntropyDecoder {
 public:
  // Whether this image is an ordinary one; to be called after jpeg_start_decompress, with the columns of the image
  // that count. From then on `next` does what libjpeg's entropy decoder would.
  bool start(j_decompress_ptr info, int64_t left, int64_t right) {
    const uint16_t order = 1;
    if (!*reinterpret_cast<const uint8_t*>(&order) || info->progressive_mode || info->arith_code ||
        info->restart_interval || jpeg_has_multiple_scans(info) || info->Ss != 0 || info->Se != 63 || info->Ah ||
        info->Al || info->data_precision != 8)
      return false;
    for (int i = 0; i < info->blocks_in_MCU; ++i) {
      component_[i] = info->MCU_membership[i];
      const jpeg_component_info* component = info->cur_comp_info[component_[i]];
      const int dc = component->dc_tbl_no, ac = component->ac_tbl_no;
      if (dc < 0 || dc >= NUM_HUFF_TBLS || ac < 0 || ac >= NUM_HUFF_TBLS) return false;
      if (!differences_[dc].load(info->dc_huff_tbl_ptrs[dc], false)) return false;
      if (!steps_[ac].load(info->ac_huff_tbl_ptrs[ac], true)) return false;
      is_flat_[i] = info->scale_denom == 8 * info->scale_num && component->h_samp_factor == info->max_h_samp_factor &&
                    component->v_samp_factor == info->max_v_samp_factor;
      difference_[i] = &differences_[dc];
      step_[i] = &steps_[ac];
    }
    blocks_ = info->blocks_in_MCU;
    columns_ = info->MCUs_per_row;
    const int64_t width = info->comps_in_scan == 1 ? 8 : 8 * info->max_h_samp_factor;
    first_ = left / width - 1;  // with a column to spare on either side
    last_ = (right + width - 1) / width;
    column_ = 0;
    std::memset(last_values_, 0, sizeof(last_values_));
    from_ = info->src->next_input_byte;
    end_ = from_ + info->src->bytes_in_buffer;
    memory_ = scratch<uint8_t, 8>(info->src->bytes_in_buffer + 2 * SPARE);
    filled_ = memory_;
    ended_ = false;
    bits_ = {memory_, 0, 0};
    return true;
  }

  // Decodes the next blocks into `to`, which are zero; nullptr: past them. False: out of order.
  bool next(JBLOCKROW* to) {
    if (filled_ - bits_.at < SPARE && !ended_) fill();
    Bits bits = bits_;
    const bool wanted = to != nullptr && column_ >= first_ && column_ <= last_;
    if (++column_ == columns_) column_ = 0;
    for (int i = 0; i < blocks_; ++i)
      if (!(wanted && !is_flat_[i] ? block<true>(bits, i, *to[i]) : block<false>(bits, i, wanted ? *to[i] : nullptr)))
        return false;
    bits_ = bits;
    return !ended_ || 8 * (bits.at - memory_) - bits.count <= 8 * (filled_ - memory_);
  }

 private:
  static constexpr ptrdiff_t SPARE = 4096;    // bytes; ten blocks are 2.5 thousand at most
  static constexpr ptrdiff_t AT_ONCE = 16384;  // bytes that are made ready

  // Removes the zero after each 0xff, up to the next marker.
  void fill() {
    uint8_t* const enough = filled_ + AT_ONCE;
    while (filled_ < enough && !ended_) {
      const size_t rest = end_ - from_;
      const auto* marked = rest ? static_cast<const uint8_t*>(std::memchr(from_, 0xff, rest)) : nullptr;
      const size_t plain = marked ? marked - from_ : rest;
      std::memcpy(filled_, from_, plain);
      filled_ += plain;
      from_ += plain;
      if (marked && end_ - marked > 1 && marked[1] == 0) {
        *filled_++ = 0xff;
        from_ += 2;
      } else {
        ended_ = true;
        std::memset(filled_, 0, SPARE);
      }
    }
  }

  // Decodes a block into `to`: all coefficients if `Wanted`, else the first one; nullptr: passes over it.
  template <bool Wanted>
  inline __attribute__((always_inline)) bool block(Bits& bits, int index, JCOEF* to) {
    constexpr int SHIFT = 64 - HuffmanTable::LOOK;
    bits.refill();
    int symbol, length;
    const HuffmanTable& difference = *difference_[index];
    int change;
    if (const int32_t found = difference.whole[bits.buffer >> SHIFT]; found) {
      bits.take(found & 255);
      change = found >> 16;
    } else {
      if (!(length = difference.code(bits.buffer, &symbol))) return false;
      bits.take(length);
      change = bits.value(symbol);
    }
    uint32_t& last = last_values_[component_[index]];
    last += static_cast<uint32_t>(change);
    if (to) to[0] = static_cast<JCOEF>(last);

    const HuffmanTable& steps = *step_[index];
    int k = 1;
    while (k < 64) {
      bits.refill();
      bool known = true;
      // As many look-ups as these bits are enough for in any case.
      for (int turn = 0; turn < (Wanted ? 56 / HuffmanTable::LOOK : 56 / HuffmanTable::MOST) && k < 64; ++turn) {
        if constexpr (Wanted) {
          const int32_t found = steps.whole[bits.buffer >> SHIFT];
          if (!(known = found)) break;
          bits.take(found & 255);
          k += (found >> 8) & 255;
          to[zigzag_[k - 1]] = static_cast<JCOEF>(found >> 16);
        } else {
          const int found = steps.two[bits.buffer >> SHIFT], step = found >> 8;
          // Not where the first of two may be the last of the block.
          if (!(known = found && k + step % HuffmanTable::BLOCK_END < 64)) break;
          bits.take(found & 255);
          k += step;
        }
      }
      if (known) continue;
      bits.refill();
      if (!(length = steps.code(bits.buffer, &symbol))) return false;
      bits.take(length);
      k += steps.advance(symbol);
      const int value = bits.value(symbol & 15);
      if (Wanted) to[zigzag_[k - 1]] = static_cast<JCOEF>(value);
    }
    return k == 64 || k >= HuffmanTable::BLOCK_END;
  }

  HuffmanTable differences_[NUM_HUFF_TBLS], steps_[NUM_HUFF_TBLS];  // kept from image to image: most have the same
  const HuffmanTable *difference_[D_MAX_BLOCKS_IN_MCU], *step_[D_MAX_BLOCKS_IN_MCU];
  int component_[D_MAX_BLOCKS_IN_MCU];
  bool is_flat_[D_MAX_BLOCKS_IN_MCU];  // whether the block becomes one pixel, for which its first coefficient is enough
  const uint8_t* zigzag_ = zigzag();
  uint32_t last_values_[MAX_COMPS_IN_SCAN];
  int blocks_;
  int64_t columns_, first_, last_, column_;
  const uint8_t *from_, *end_;  // of the file, what is not made ready yet
  uint8_t *memory_, *filled_;
  bool ended_;
  Bits bits_;
};

}  // namespace tfhet
