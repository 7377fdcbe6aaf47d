#include "chain.h"

#include <time.h>

#include "parallel.h"

namespace tfhet {

Step::Step(const Config& config) {
  for (const Config& each : config.stages("stages")) {
    members.push_back({each.name, make_stage(each), each.has("salt") ? each.integer("salt") : -1, slots});
    slots += members.back().stage->slots();
  }
  if (members.empty()) throw Failure{Code::internal, "a step without stages"};
}

Form Step::after(const Image& image, size_t count) const {
  Form form = image.form;
  for (size_t i = 0; i < count; ++i) form = i == 0 ? members[0].stage->output_of(image) : members[i].stage->output(form);
  return form;
}

void Step::draw(const Image& image, const Origin& origin, Slot* to) const {
  for (size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (member.salt >= 0) member.stage->draw(origin.of(member.salt), after(image, i), to + member.first);
  }
}

Form Step::output(const Form& form) const {
  Form result = form;
  for (const Member& member : members) result = member.stage->output(result);
  return result;
}

Chain::Chain(const std::string& text) {
  for (const Config& config : Config::read(text)) {
    first_slot_.push_back(slots_);
    steps_.push_back(make_step(config));
    const Step& step = *steps_.back();
    for (const Step::Member& member : step.members) {
      salts_ = std::max(salts_, member.salt + 1);
      for (const Parameter& parameter : member.stage->parameters())
        parameters_ += member.name + " " + std::to_string(member.salt) + " " + parameter.name + " " + parameter.kind + " " +
                       std::to_string(parameter.count) + " " + (parameter.is_vector ? "1" : "0") + "\n";
    }
    slots_ += step.slots;
    if (segments_.empty() || segments_.back().is_paired || step.has_partner())
      segments_.push_back({steps_.size() - 1, 0, step.has_partner()});
    segments_.back().end = steps_.size();
  }
  if (steps_.empty()) throw Failure{Code::internal, "a chain without stages"};
  step_ns_ = std::make_unique<std::atomic<int64_t>[]>(steps_.size());
}

int64_t Chain::times(int64_t* step_ns) const {
  for (size_t i = 0; i < steps_.size(); ++i) step_ns[i] = step_ns_[i].load(std::memory_order_relaxed);
  return timed_.load(std::memory_order_relaxed);
}

Form Chain::output(Form form) const {
  for (const auto& step : steps_) form = step->output(form);
  return form;
}

namespace {

// For each image the next one of the same path; the first follows the last.
std::vector<int64_t> partners(const std::vector<uint64_t>& paths) {
  const int64_t size = static_cast<int64_t>(paths.size());
  std::vector<int64_t> next(size);
  std::map<uint64_t, int64_t> following;  // of each path: its first image at the start, then the one handled before
  for (int64_t i = size - 1; i >= 0; --i) following[paths[i]] = i;
  for (int64_t i = size - 1; i >= 0; --i) {
    next[i] = following[paths[i]];
    following[paths[i]] = i;
  }
  return next;
}

constexpr int64_t kTimedEach = 16;  // of so many images in a batch one is timed: reading the clock costs about 0.3 us

int64_t thread_cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

size_t checked_bytes(const Form& form, int64_t size) {
  int64_t bytes = form.type == Type::float32 ? 4 : 1;
  for (const int64_t length : {size, form.height, form.width, form.channels})
    if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes) || bytes > (int64_t{1} << 46))
      throw Failure{Code::resource_exhausted, "a batch of " + std::to_string(size) + " images is too large"};
  return static_cast<size_t>(bytes);
}

}  // namespace

// What the threads of one call share.
struct Chain::Call {
  const Batch& batch;
  const Chain& chain;
  Slot* slots;
  int threads;

  Image image(const void* images, const Form& form, int64_t i) const {
    Image one;
    one.form = form;
    one.index = i;
    if (form.type == Type::file) {
      one.file = std::string_view(batch.files[i], static_cast<size_t>(batch.lengths[i]));
    } else {
      one.data = const_cast<uint8_t*>(static_cast<const uint8_t*>(images) + form.bytes() * i);
      one.room = static_cast<int64_t>(form.bytes()) * (batch.size - i);
    }
    return one;
  }

  // Returns the drawn values of a step for image i, which it draws unless they are given.
  const Slot* draw(size_t step, const Image& image, int64_t i) const {
    const int64_t first = i * chain.slots_ + chain.first_slot_[step];
    if (batch.given) return batch.given + first;
    if (chain.steps_[step]->slots > 0) chain.steps_[step]->draw(image, batch.origin(i), slots + first);
    return slots + first;
  }

  // The steps of a segment, each image through all of them.
  void alone(const Segment& segment, const void* images, const Form& form, void* result, const Form& made) const {
    in_parallel(batch.size, threads, [&](int64_t i) {
      thread_local Arena arena;
      uint8_t* const target = static_cast<uint8_t*>(result) + made.bytes() * i;
      arena.aim(target, made);
      Image current = image(images, form, i);
      const bool is_timed = i % kTimedEach == 0;
      int64_t before_ns = is_timed ? thread_cpu_ns() : 0;
      for (size_t at = segment.begin; at < segment.end; ++at) {
        const Slot* drawn = draw(at, current, i);
        arena.is_last = at + 1 == segment.end;
        current = chain.steps_[at]->run(current, arena, drawn);
        current.index = i;
        if (is_timed) before_ns = count(at, before_ns);
      }
      if (!(current.form == made)) invalid("images[" + std::to_string(i) + "] differs in size from the others of the batch");
      if (current.data != target) std::memcpy(target, current.data, made.bytes());
    });
  }

  // A step that needs the next image of the batch.
  void paired(const Segment& segment, const void* images, const Form& form, void* result, const Form& made) const {
    const Step& step = *chain.steps_[segment.begin];
    std::vector<const Slot*> drawn(batch.size);
    std::vector<uint64_t> paths(batch.size);
    for (int64_t i = 0; i < batch.size; ++i) {
      drawn[i] = draw(segment.begin, image(images, form, i), i);
      paths[i] = step.path(drawn[i]);
    }
    const std::vector<int64_t> next = partners(paths);
    in_parallel(batch.size, threads, [&](int64_t i) {
      thread_local Arena arena;
      uint8_t* const target = static_cast<uint8_t*>(result) + made.bytes() * i;
      arena.aim(target, made);
      arena.is_last = true;
      const bool is_timed = i % kTimedEach == 0;
      const int64_t before_ns = is_timed ? thread_cpu_ns() : 0;
      const Image current = step.paired(image(images, form, i), image(images, form, next[i]), arena, drawn[i]);
      if (current.data != target) std::memcpy(target, current.data, made.bytes());
      if (is_timed) count(segment.begin, before_ns);
    });
  }

  // Adds the time since `before_ns` to a step; returns the time.
  int64_t count(size_t step, int64_t before_ns) const {
    const int64_t now_ns = thread_cpu_ns();
    chain.step_ns_[step].fetch_add(now_ns - before_ns, std::memory_order_relaxed);
    if (step == 0) chain.timed_.fetch_add(1, std::memory_order_relaxed);
    return now_ns;
  }
};

void Chain::check_origin(const Batch& batch) const {
  if (salts_ == 0 || batch.keys) return;
  if (!batch.ids || !batch.epochs || !batch.salts || batch.salts_count < salts_)
    invalid("the chain draws random numbers: it needs ids, epochs and " + std::to_string(salts_) + " salts");
}

void Chain::draw(const Batch& batch, Slot* drawn) const {
  check_origin(batch);
  const Call call{batch, *this, drawn, 1};
  for (int64_t i = 0; i < batch.size; ++i) {
    Image image = call.image(batch.images, batch.form, i);
    for (size_t at = 0; at < steps_.size(); ++at) {
      call.draw(at, image, i);
      image.form = steps_[at]->output_of(image);
    }
  }
}

void Chain::run(const Batch& batch, int threads, void* result, Slot* drawn) const {
  if (!batch.given) check_origin(batch);
  const Call call{batch, *this, drawn ? drawn : scratch<Slot, 20>(slots_ * batch.size), threads};
  std::vector<uint8_t> before, after;  // the images between two segments
  const void* images = batch.images;
  Form form = batch.form;
  for (const Segment& segment : segments_) {
    Form made = form;
    for (size_t at = segment.begin; at < segment.end; ++at) made = steps_[at]->output(made);
    const size_t bytes = checked_bytes(made, batch.size);
    const bool is_last = segment.end == steps_.size();
    if (!is_last) after.resize(bytes);
    void* const to = is_last ? result : after.data();
    segment.is_paired ? call.paired(segment, images, form, to, made) : call.alone(segment, images, form, to, made);
    std::swap(before, after);
    images = before.data();
    form = made;
  }
}

}  // namespace tfhet
