// Stages that hold other stages and draw, for each image, which of them is applied: one_of and probability.

#include "stage.h"

namespace tfhet {

namespace {

// branches=[(posterize bits=4 word='123') (none)] shares=[0.7 0.3]: `none` leaves an image unchanged. word: of a branch
// that draws, the hash of its name and number, from which its key is made. prefix='NAME': what its parameters' names
// begin with, if it is not the stage's name.
class Choice : public Stage {
 public:
  explicit Choice(const Config& config) : name_(config.name) {
    const std::vector<Config>& branches = config.stages("branches");
    const std::vector<double>& shares = config.numbers("shares");
    if (branches.empty() || shares.size() != branches.size())
      throw Failure{Code::internal, "stage " + name_ + ": there is one share for each branch"};
    parameters_.push_back({"choice", 'i'});
    double end = 0.0;
    for (size_t at = 0; at < branches.size(); ++at) {
      Branch branch{branches[at].name == "none" ? nullptr : make_stage(branches[at]), slots_, 0};
      if (at > 0) ends_.push_back(static_cast<float>(end));
      end += shares[at];
      const std::vector<Parameter> own = branch.stage ? branch.stage->parameters() : std::vector<Parameter>{};
      if (!own.empty()) branch.word = branches[at].word("word");
      const std::string& prefix = branches[at].has("prefix") ? branches[at].text("prefix") : branches[at].name;
      for (Parameter parameter : own) {
        parameter.name = prefix + ":" + std::to_string(at) + "/" + parameter.name;
        slots_ += parameter.count;
        parameters_.push_back(std::move(parameter));
      }
      has_partner_ |= branch.stage && branch.stage->has_partner();
      branch.is_random = !own.empty();
      branches_.push_back(std::move(branch));
    }
  }

  std::vector<Parameter> parameters() const override { return parameters_; }

  // All branches draw, so that the numbers of one do not depend on the choice.
  void draw(Key key, const Form& form, Slot* to) const override {
    const float unit = key.uniform(0);
    int64_t choice = 0;
    for (const float end : ends_) choice += unit >= end;
    to[0].number = static_cast<double>(choice);
    for (const Branch& branch : branches_)
      if (branch.is_random) branch.stage->draw(Key{absorb(key.state, branch.word)}, form, to + branch.first);
  }

  Form output(const Form& form) const override {
    return common([&](const Stage* stage) { return stage ? stage->output(form) : form; });
  }
  Form output_of(const Image& image) const override {
    return common([&](const Stage* stage) { return stage ? stage->output_of(image) : image.form; });
  }

  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    const Branch& branch = chosen(drawn);
    return branch.stage ? branch.stage->apply(image, arena, drawn + branch.first) : image;
  }

  bool has_partner() const override { return has_partner_; }
  uint64_t path(const Slot* drawn) const override {
    const Branch& branch = chosen(drawn);
    const uint64_t choice = static_cast<uint64_t>(&branch - branches_.data());
    return absorb(choice, branch.stage ? branch.stage->path(drawn + branch.first) : 0);
  }
  Image paired(const Image& image, const Image& other, Arena& arena, const Slot* drawn) const override {
    const Branch& branch = chosen(drawn);
    return branch.stage ? branch.stage->paired(image, other, arena, drawn + branch.first) : image;
  }

 private:
  struct Branch {
    std::unique_ptr<Stage> stage;  // nullptr: the image stays unchanged
    int64_t first;                 // its first slot
    uint64_t word;
    bool is_random = false;
  };

  const Branch& chosen(const Slot* drawn) const {
    return branches_[drawn[0].index(static_cast<int64_t>(branches_.size()), "choice")];
  }

  // The form that form_of(stage) returns for all branches.
  template <class FormOf>
  Form common(const FormOf& form_of) const {
    const Form first = form_of(branches_[0].stage.get());
    for (const Branch& branch : branches_)
      if (!(form_of(branch.stage.get()) == first))
        invalid("stage " + name_ + ": its stages differ in the size or type of their results");
    return first;
  }

  const std::string name_;
  std::vector<Branch> branches_;
  std::vector<float> ends_;  // of the draws that choose each branch but the last
  std::vector<Parameter> parameters_;
  int64_t slots_ = 1;
  bool has_partner_ = false;
};

const Registered<Choice> one_of{"one_of"};
const Registered<Choice> probability{"probability"};

}  // namespace

}  // namespace tfhet
