// Filters of an image with weights around each pixel. Separable filters process the columns and then the rows, one line
// of the result after the other, so that the values between the two passes stay in the nearest cache.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "failure.h"
#include "vector.h"

namespace tfhet::filters {

enum class Padding { reflect, symmetric, constant };

inline Padding padding_of(const std::string& name) {
  if (name == "REFLECT") return Padding::reflect;
  if (name == "SYMMETRIC") return Padding::symmetric;
  if (name == "CONSTANT") return Padding::constant;
  invalid("padding is REFLECT, SYMMETRIC or CONSTANT, not " + name);
}

using Values = Vector<float>::Values;
inline constexpr int LANES = Vector<float>::LANES;

inline Values values(const float* from) { return *reinterpret_cast<const Values*>(from); }
inline void store(Values what, float* to) { *reinterpret_cast<Values*>(to) = what; }

// Lines of float32 have room for whole blocks of this many values, so that no loop needs an end of its own.
inline constexpr int BLOCK = 32;

inline int64_t whole_blocks(int64_t count) { return (count + BLOCK - 1) / BLOCK * BLOCK; }

// Scratch that begins with a line of the cache: a vector across two of them is read twice.
template <int Slot>
float* aligned_scratch(int64_t count) {
  const auto at = reinterpret_cast<uintptr_t>(scratch<float, Slot>(count + BLOCK));
  return reinterpret_cast<float*>((at + 63) / 64 * 64);
}

inline void block(const uint8_t* __restrict from, float* __restrict to) {
  for (int i = 0; i < BLOCK; ++i) to[i] = static_cast<float>(from[i]);
}

// A line as float32.
inline void load(const uint8_t* from, int64_t length, float* to) {
  int64_t done = 0;
  for (; done + BLOCK <= length; done += BLOCK) block(from + done, to + done);
  if (done == length) return;
  uint8_t rest[BLOCK] = {};
  std::memcpy(rest, from + done, length - done);
  block(rest, to + done);
}
inline void load(const float* from, int64_t length, float* to) { std::memcpy(to, from, length * sizeof(float)); }

// `addend` makes cutting the fraction off the rounding that is wanted.
inline void block(const float* __restrict from, float addend, uint8_t* __restrict to) {
  for (int i = 0; i < BLOCK; ++i)
    to[i] = static_cast<uint8_t>(std::min(std::max(static_cast<int32_t>(from[i] + addend), 0), 255));
}

// A line as what images hold.
inline void save(const float* from, int64_t length, float addend, uint8_t* to) {
  int64_t done = 0;
  for (; done + BLOCK <= length; done += BLOCK) block(from + done, addend, to + done);
  if (done == length) return;
  uint8_t rest[BLOCK];
  block(from + done, addend, rest);
  std::memcpy(to + done, rest, length - done);
}
inline void save(const float* from, int64_t length, float, float* to) { std::memcpy(to, from, length * sizeof(float)); }

// Number of lines that one pass writes before the next pass reads them. Reading what was just written is slow, unless
// it is read in the same pieces, and the pass along the rows reads other pieces.
inline int64_t lines_at_once(int64_t line, int64_t height) {
  return std::min(height, std::max<int64_t>(4, 4096 / std::max<int64_t>(line, 1)));
}

// The place within a line of `length` that `at` shows, from -length to 2 * length - 1; -1 for none.
inline int64_t folded(int64_t at, int64_t length, Padding padding) {
  if (at >= 0 && at < length) return at;
  if (padding == Padding::constant) return -1;
  const int64_t twice = padding == Padding::reflect ? 1 : 0;  // how often the edge is left out
  return at < 0 ? -at - 1 + twice : 2 * length - 1 - at - twice;
}

// Weights around a middle, without those at the ends that are 0.
struct Taps {
  std::vector<float> weights;
  int64_t before;      // how many of them are left of the middle
  int64_t reach;       // how far the filter as it was given would reach
  bool symmetric;

  explicit Taps(std::vector<float> given) : weights(std::move(given)) {
    const int64_t size = static_cast<int64_t>(weights.size());
    if (size == 0) invalid("a filter has at least one weight along each axis");
    before = (size - 1) / 2;
    reach = size / 2;
    while (weights.size() > 1 && weights.back() == 0.0f && behind() > 0) weights.pop_back();
    while (before > 0 && weights.front() == 0.0f) {
      weights.erase(weights.begin());
      --before;
    }
    symmetric = before == behind();
    for (int64_t k = 1; symmetric && k <= before; ++k) symmetric = weights[before - k] == weights[before + k];
  }
  int64_t behind() const { return static_cast<int64_t>(weights.size()) - 1 - before; }
};

// Apart, so that the compiler has a register for each of the lines.
template <int Each>
__attribute__((noinline)) void weighted(const float* weights, const float* const* low, const float* middle,
                                        const float* const* high, int64_t length, float* __restrict to) {
  for (int64_t x = 0; x < length; x += LANES) {
    Values total = weights[0] * values(middle + x);
    for (int k = 1; k <= Each; ++k) total += weights[k] * (values(low[k] + x) + values(high[k] + x));
    store(total, to + x);
  }
}

// For each of `count` lines the weighted sum of lines(number, -each) to lines(number, each). Each: that many, known
// when compiled, or -1.
template <int Each, class Lines>
void symmetric_sums(const float* weights, int64_t each, Lines lines, int64_t count, int64_t length,
                    float* __restrict to, int64_t pitch) {
  constexpr int KNOWN = Each < 0 ? 0 : Each;
  for (int64_t number = 0; number < count; ++number, to += pitch) {
    const float *low[KNOWN + 1], *high[KNOWN + 1], *middle = lines(number, 0);
    for (int k = 1; k <= KNOWN; ++k) {
      low[k] = lines(number, -k);
      high[k] = lines(number, k);
    }
    if (Each >= 0) {
      weighted<KNOWN>(weights, low, middle, high, length, to);
      continue;
    }
    for (int64_t x = 0; x < length; x += LANES) {
      Values total = weights[0] * values(middle + x);
      for (int64_t k = 1; k <= each; ++k)
        total += weights[k] * (values(lines(number, -k) + x) + values(lines(number, k) + x));
      store(total, to + x);
    }
  }
}

template <class Lines>
void sums(const Taps& taps, Lines lines, int64_t count, int64_t length, float* __restrict to, int64_t pitch) {
  const float* weights = taps.weights.data() + taps.before;
  const int64_t before = taps.before, behind = taps.behind();
  if (taps.symmetric) {
    switch (behind) {
      case 1:
        return symmetric_sums<1>(weights, 1, lines, count, length, to, pitch);
      case 2:
        return symmetric_sums<2>(weights, 2, lines, count, length, to, pitch);
      case 3:
        return symmetric_sums<3>(weights, 3, lines, count, length, to, pitch);
      case 4:
        return symmetric_sums<4>(weights, 4, lines, count, length, to, pitch);
      default:
        return symmetric_sums<-1>(weights, behind, lines, count, length, to, pitch);
    }
  }
  for (int64_t number = 0; number < count; ++number, to += pitch) {
    for (int64_t x = 0; x < length; x += LANES) {
      Values total = weights[0] * values(lines(number, 0) + x);
      for (int64_t k = -before; k <= behind; ++k)
        if (k != 0) total += weights[k] * values(lines(number, k) + x);
      store(total, to + x);
    }
  }
}

// Correlates the columns and then the rows of an image with weights. Several threads may use one object.
class Separable {
 public:
  // addend: is added to results of uint8 images before their fraction is cut off.
  Separable(std::vector<float> columns, std::vector<float> rows, Padding padding, float addend)
      : down_(std::move(columns)), across_(std::move(rows)), padding_(padding), addend_(addend) {}

  // Throws if the image is too small for the padding.
  template <class T>
  void image(const T* from, int64_t height, int64_t width, int64_t channels, T* to) const {
    if (height * width * channels > 0) run(from, *plan_of(height, width, channels), to);
  }

 private:
  void check(int64_t length, const Taps& taps) const {
    const int64_t least = padding_ == Padding::reflect ? taps.reach + 1 : taps.reach;
    if (padding_ != Padding::constant && length < least)
      invalid("a filter that reaches " + std::to_string(taps.reach) + " pixels far needs images of at least " +
                     std::to_string(least) + ", not " + std::to_string(length));
  }

  // What is the same for all images of a size.
  struct Plan {
    int64_t height, width, line;
    int64_t stride;        // from one line to the next, as float32
    int64_t held;          // lines in a ring, a power of 2
    int64_t group, pitch;  // lines that are made at once, and from one to the next between the passes
    int64_t before, each;  // lines above, and all that the filter covers
    int64_t left, right, channels;
    std::vector<int32_t> lines;  // of each line of the result: where the ones that the filter covers are in the ring
    std::vector<int32_t> beside;  // of each value left of a line, then right of it: the one it repeats, or -1

    Plan(int64_t height, int64_t width, int64_t channels, const Taps& down, const Taps& across, Padding padding)
        : height(height), width(width), line(width * channels), stride(whole_blocks(line)), channels(channels) {
      before = down.before;
      each = before + 1 + down.behind();
      held = 1;
      while (held < std::min(height, 2 * std::max(before, down.behind()) + 2)) held *= 2;
      left = across.before * channels;
      right = across.behind() * channels;
      group = lines_at_once(line, height);
      pitch = whole_blocks(left) + whole_blocks(line + right);
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t k = -before; k <= down.behind(); ++k) {
          const int64_t other = folded(y + k, height, padding);
          lines.push_back(static_cast<int32_t>((other < 0 ? held : other & (held - 1)) * stride));
        }
      }
      for (int64_t x = -across.before; x < width + across.behind(); x = x == -1 ? width : x + 1) {
        const int64_t other = folded(x, width, padding);
        for (int64_t c = 0; c < channels && (x < 0 || x >= width); ++c)
          beside.push_back(static_cast<int32_t>(other < 0 ? -1 : other * channels + c));
      }
    }
  };

  template <class T>
  void run(const T* from, const Plan& plan, T* to) const {
    const int64_t height = plan.height, line = plan.line, stride = plan.stride, pitch = plan.pitch;
    float* ring = aligned_scratch<0>((plan.held + 1) * stride);
    std::fill_n(ring + plan.held * stride, stride, 0.0f);  // what lies outside
    float* between = aligned_scratch<1>(plan.group * pitch + BLOCK) + whole_blocks(plan.left);
    float* results = aligned_scratch<2>(plan.group * stride);
    int64_t there = 0;  // lines in the ring so far
    for (int64_t top = 0; top < height; top += plan.group) {
      const int64_t count = std::min(plan.group, height - top);
      for (int64_t y = top; y < top + count; ++y) {
        for (; there < height && (there <= y + down_.behind() || there < plan.held); ++there)
          load(from + there * line, line, ring + (there & (plan.held - 1)) * stride);
        const int32_t* lines = plan.lines.data() + y * plan.each + plan.before;
        float* one = between + (y - top) * pitch;
        sums(down_, [=](int64_t, int64_t k) { return ring + lines[k]; }, 1, line, one, pitch);
      }
      for (int64_t i = 0; i < count; ++i) surround(between + i * pitch, plan);
      sums(across_, [&](int64_t i, int64_t k) { return between + i * pitch + k * plan.channels; }, count, line, results,
           stride);
      for (int64_t i = 0; i < count; ++i) save(results + i * stride, line, addend_, to + (top + i) * line);
    }
  }

  static __attribute__((noinline)) void surround(float* __restrict line, const Plan& plan) {
    const int32_t* beside = plan.beside.data();
    for (int64_t x = 0; x < plan.left; ++x) line[x - plan.left] = beside[x] < 0 ? 0.0f : line[beside[x]];
    beside += plan.left;
    for (int64_t x = 0; x < plan.right; ++x) line[plan.line + x] = beside[x] < 0 ? 0.0f : line[beside[x]];
  }

  // The plan of this size. The last one is kept.
  std::shared_ptr<const Plan> plan_of(int64_t height, int64_t width, int64_t channels) const {
    std::shared_ptr<const Plan> plan;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      plan = plan_;
    }
    if (plan && plan->height == height && plan->width == width && plan->channels == channels) return plan;
    check(height, down_);
    check(width, across_);
    plan = std::make_shared<const Plan>(height, width, channels, down_, across_, padding_);
    const std::lock_guard<std::mutex> lock(mutex_);
    plan_ = plan;
    return plan;
  }

  const Taps down_, across_;
  const Padding padding_;
  const float addend_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Plan> plan_;
};

inline void inner(const float* middle, const float* columns, int64_t length, int64_t channels, float softening,
                  float* result) {
  for (int64_t x = 0; x < length; x += LANES) {
    const Values box = (values(columns + x - channels) + values(columns + x)) + values(columns + x + channels);
    store(values(middle + x) + (box - 9.0f * values(middle + x)) * softening, result + x);
  }
}

inline void clip(float* __restrict values, int64_t length, float high) {
  for (int64_t x = 0; x < length; ++x) {
    const float value = values[x] > 0.0f ? values[x] : 0.0f;
    values[x] = value < high ? value : high;
  }
}

// x + (box - 9 x) * softening on all pixels but the outermost, clipped to the full range; box: the sum of 3 x 3 pixels.
template <class T>
void sharpen(const T* from, int64_t height, int64_t width, int64_t channels, float softening, T* to) {
  const int64_t line = width * channels;
  if (height * line == 0) return;
  const int64_t stride = whole_blocks(line), group = lines_at_once(line, height);
  float* lines = aligned_scratch<0>((group + 2) * stride);  // with the ones above and below
  float* columns = aligned_scratch<1>(group * stride + 2 * whole_blocks(channels)) + whole_blocks(channels);
  float* results = aligned_scratch<2>(group * stride);
  const bool has_inner = height > 2 && line > 2 * channels;
  for (int64_t top = 0; top < height; top += group) {
    const int64_t count = std::min(group, height - top);
    for (int64_t i = top == 0 ? 1 : 0; i < count + 2 && top + i <= height; ++i)
      load(from + (top + i - 1) * line, line, lines + i * stride);
    for (int64_t i = 0; i < count; ++i) {
      const float* middle = lines + (i + 1) * stride;
      for (int64_t x = 0; has_inner && x < stride; x += LANES)
        store((values(middle - stride + x) + values(middle + x)) + values(middle + stride + x),
              columns + i * stride + x);
    }
    for (int64_t i = 0; i < count; ++i) {
      const float* middle = lines + (i + 1) * stride;
      float* result = results + i * stride;
      const bool is_edge = !has_inner || top + i == 0 || top + i == height - 1;
      if (is_edge) {
        std::memcpy(result, middle, line * sizeof(float));
      } else {
        inner(middle, columns + i * stride, stride, channels, softening, result);
        std::memcpy(result, middle, channels * sizeof(float));
        std::memcpy(result + line - channels, middle + line - channels, channels * sizeof(float));
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      clip(results + i * stride, stride, sizeof(T) == 1 ? 255.0f : 1.0f);
      save(results + i * stride, line, 0.5f, to + (top + i) * line);
    }
  }
}

}  // namespace tfhet::filters
