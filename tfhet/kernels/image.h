// One image, and where its successors are kept.

#pragma once

#include <string_view>

#include "failure.h"

namespace tfhet {

enum class Type : int32_t { uint8 = 0, float32 = 1, file = 2 };

struct Form {
  Type type = Type::uint8;
  int64_t height = 0, width = 0, channels = 0;

  int64_t pixels() const { return height * width; }
  int64_t values() const { return height * width * channels; }
  size_t bytes() const { return static_cast<size_t>(values()) * (type == Type::float32 ? sizeof(float) : 1); }
  // The brightest level of images in their full range.
  float full() const { return type == Type::float32 ? 1.0f : 255.0f; }
  bool operator==(const Form& other) const {
    return type == other.type && height == other.height && width == other.width && channels == other.channels;
  }
};

// Raises Failure, with the stage's name, for image files and for images with fewer rows or columns than `shortest`.
inline void check_pixels(const Form& form, const char* stage, int64_t shortest = 1) {
  const auto refuse = [&](const std::string& why) { invalid(std::string("stage ") + stage + ": " + why); };
  if (form.type == Type::file) refuse("the images are not decoded yet: put decode before it");
  for (const int64_t length : {form.height, form.width})
    if (length < shortest)
      refuse("needs images of at least " + std::to_string(shortest) + " pixels each way, not " + std::to_string(length));
}

// Raises Failure unless images have 1 or 3 channels.
inline void check_colours(const Form& form, const char* stage) {
  if (form.channels != 1 && form.channels != 3)
    invalid(std::string("stage ") + stage + ": needs images of 1 or 3 channels, not " + std::to_string(form.channels));
}

// Pixels [height, width, channels], or the bytes of an image file.
struct Image {
  Form form;
  void* data = nullptr;
  int64_t room = 0;  // bytes that may be read from `data` on, at least those of the image
  std::string_view file;
  int64_t index = 0;  // place in the batch, for messages

  template <class T>
  T* values() const {
    return static_cast<T*>(data);
  }
  // Calls function(T*) for the type of the pixels.
  template <class Function>
  auto typed(Function function) const {
    return form.type == Type::float32 ? function(values<float>()) : function(values<uint8_t>());
  }
};

// Memory for the images between two stages. Each thread has one; it is kept from image to image.
class Arena {
 public:
  // The memory where the result of the whole chain belongs.
  void aim(void* target, Form form) {
    target_ = target;
    form_ = form;
  }
  // Whether the stage that runs is the last one: its image is made in the target.
  bool is_last = false;

  // Returns an image with undefined pixels that is not in the memory of `from`.
  Image make(const Form& form, const Image& from) {
    Image image{form, nullptr, 0, {}, from.index};
    if (is_last && form == form_ && target_ != from.data) {
      image.data = target_;
      image.room = static_cast<int64_t>(form.bytes());
      return image;
    }
    for (std::vector<uint8_t>& memory : memories_) {
      if (!memory.empty() && memory.data() == from.data) continue;
      if (memory.size() < form.bytes() + PADDING) memory.resize(form.bytes() + PADDING);
      image.data = memory.data();
      image.room = static_cast<int64_t>(memory.size());
      break;
    }
    return image;
  }

 private:
  static constexpr size_t PADDING = 64;
  void* target_ = nullptr;
  Form form_;
  std::vector<uint8_t> memories_[2];
};

}  // namespace tfhet
