// Runs a chain of stages on a batch: draws the parameters of each example and sends its image through all stages while
// it is in the cache.

#pragma once

#include <atomic>

#include "stage.h"

namespace tfhet {

// What the random numbers of an example derive from.
struct Origin {
  const uint64_t* salts;  // one for each stage that draws
  uint64_t epoch, id;
  const uint64_t* key;  // if set, the key of all stages

  Key of(int64_t salt) const { return {key ? *key : absorb(absorb(salts[salt], epoch), id)}; }
};

// Stages that run as one operation; see tfhet/stages/fusion.py.
class Step {
 public:
  virtual ~Step() = default;

  int64_t slots = 0;  // drawn values of all stages

  // Draws the parameters of all stages for one example.
  void draw(const Image& image, const Origin& origin, Slot* to) const;
  virtual Form output(const Form& form) const;
  Form output_of(const Image& image) const { return after(image, members.size()); }
  virtual Image run(const Image& image, Arena& arena, const Slot* drawn) const = 0;

  virtual bool has_partner() const { return false; }
  virtual uint64_t path(const Slot*) const { return 0; }
  virtual Image paired(const Image& image, const Image&, Arena& arena, const Slot* drawn) const {
    return run(image, arena, drawn);
  }

  struct Member {
    std::string name;
    std::unique_ptr<Stage> stage;
    int64_t salt;   // place of its salt among those of the chain; -1 if it draws nothing
    int64_t first;  // its first slot within the step
  };
  std::vector<Member> members;

 protected:
  explicit Step(const Config& config);
  // Returns the form of the image after the first `count` stages.
  Form after(const Image& image, size_t count) const;
};

// Makes a step of a text like (straight stages=[(rescale ...) (normalize ...)]).
std::unique_ptr<Step> make_step(const Config& config);

// A batch of images, or of image files, of one form.
struct Batch {
  Form form;
  int64_t size = 0;
  const void* images = nullptr;            // [size, height, width, channels]
  const char* const* files = nullptr;      // [size], instead of images
  const int64_t* lengths = nullptr;        // [size], of the files
  const int64_t* ids = nullptr;            // [size]
  const int64_t* epochs = nullptr;         // [size], or one for all if `one_epoch`
  bool one_epoch = true;
  const uint64_t* salts = nullptr;         // one for each stage that draws
  int64_t salts_count = 0;
  const uint64_t* keys = nullptr;          // [size], in place of salts, epochs and ids
  const Slot* given = nullptr;             // [size, slots] in place of drawn values

  Origin origin(int64_t i) const {
    if (keys) return {nullptr, 0, 0, keys + i};
    return {salts, static_cast<uint64_t>(epochs[one_epoch ? 0 : i]), static_cast<uint64_t>(ids[i]), nullptr};
  }
};

class Chain {
 public:
  explicit Chain(const std::string& text);

  // A line for each drawn parameter: STAGE SALT NAME KIND COUNT VECTOR.
  const std::string& parameters() const { return parameters_; }
  int64_t slots() const { return slots_; }
  int64_t steps() const { return static_cast<int64_t>(steps_.size()); }
  Form output(Form form) const;
  // Nanoseconds of CPU time of each step, [steps], in the images that were timed; returns their number.
  int64_t times(int64_t* step_ns) const;
  // Writes the images to `result`, [size] of `output(batch.form)`, and drawn values to `drawn`, [size, slots], if set.
  // threads: how many work on the batch.
  void run(const Batch& batch, int threads, void* result, Slot* drawn) const;
  // Draws the parameters of a batch, [size, slots], without its images; files are needed for their sizes.
  void draw(const Batch& batch, Slot* drawn) const;

 private:
  struct Call;
  void check_origin(const Batch& batch) const;
  struct Segment {  // steps from `begin` to before `end`, or one step that needs a second image
    size_t begin, end;
    bool is_paired;
  };

  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<int64_t> first_slot_;
  std::vector<Segment> segments_;
  int64_t slots_ = 0, salts_ = 0;
  std::string parameters_;
  mutable std::atomic<int64_t> timed_{0};
  std::unique_ptr<std::atomic<int64_t>[]> step_ns_;  // of the timed images
};

}  // namespace tfhet
