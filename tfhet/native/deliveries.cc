// A data set that notes when each of its elements was asked for and delivered, and an op that takes the notes.
//
// With `ids`, the last two components of an element are the ids of its examples and their epochs, both int64 [batch]: it
// keeps them for another op, and delivers the element without them. The tensors are kept, not copied.
//
// It is written against TensorFlow's C++ API, because the C API has no data sets: it compiles in 7 s of CPU time.

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

using tensorflow::data::DatasetBase;
namespace data = tensorflow::data;

constexpr int kColumns = 5;
constexpr double kEnd = -1.0, kPending = -2.0;
constexpr char kName[] = "::TfhetNoted";

// One delivery, or a request that is pending. Times are in seconds on CLOCK_MONOTONIC.
struct Note {
  double asked_s;
  double delivered_s;
  double examples;  // kEnd at the end of a pass, kPending before the delivery
  double index;     // within the pass, from 0
  double is_inner;  // 1 if another noted data set was made of this one, and requests its elements
};

// The ids and the epochs of each delivery, both int64 [batch].
using Ids = std::vector<std::pair<tensorflow::Tensor, tensorflow::Tensor>>;

// The notes and the ids that were not taken yet, of each data set by its number.
class Notes {
 public:
  static Notes& all() {
    static Notes* notes = new Notes;  // never destroyed: data sets may outlive every static object
    return *notes;
  }
  void begin(int64_t number, const void* iterator, const Note& note) {
    std::lock_guard<std::mutex> guard(lock_);
    pending_[number][iterator] = note;
  }
  void end(int64_t number, const void* iterator, const Note& note) {
    std::lock_guard<std::mutex> guard(lock_);
    pending_[number].erase(iterator);
    notes_[number].push_back(note);
  }
  // Takes the deliveries; the pending requests follow them and stay.
  std::vector<Note> take(int64_t number) {
    std::vector<Note> taken;
    std::lock_guard<std::mutex> guard(lock_);
    taken.swap(notes_[number]);
    for (const auto& [iterator, note] : pending_[number]) taken.push_back(note);
    return taken;
  }
  void add_ids(int64_t number, const tensorflow::Tensor& ids, const tensorflow::Tensor& epochs) {
    std::lock_guard<std::mutex> guard(lock_);
    ids_[number].emplace_back(ids, epochs);
  }
  Ids take_ids(int64_t number) {
    Ids taken;
    std::lock_guard<std::mutex> guard(lock_);
    taken.swap(ids_[number]);
    return taken;
  }

 private:
  std::mutex lock_;
  std::unordered_map<int64_t, std::vector<Note>> notes_;
  std::unordered_map<int64_t, std::unordered_map<const void*, Note>> pending_;
  std::unordered_map<int64_t, Ids> ids_;
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class NotedDataset : public DatasetBase {
 public:
  NotedDataset(tensorflow::OpKernelContext* context, const DatasetBase* input, int64_t number, bool ids)
      : DatasetBase(data::DatasetContext(context)),
        input_(input),
        number_(number),
        ids_(ids),
        types_(input->output_dtypes().begin(), input->output_dtypes().end() - (ids ? 2 : 0)),
        shapes_(input->output_shapes().begin(), input->output_shapes().end() - (ids ? 2 : 0)) {
    input_->Ref();
  }
  ~NotedDataset() override { input_->Unref(); }

  std::unique_ptr<data::IteratorBase> MakeIteratorInternal(const std::string& prefix) const override {
    return std::make_unique<Iterator>(Iterator::Params{this, prefix + kName});
  }
  const tensorflow::DataTypeVector& output_dtypes() const override { return types_; }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override { return shapes_; }
  std::string DebugString() const override { return "TfhetNotedDataset"; }
  int64_t CardinalityInternal(data::CardinalityOptions options) const override { return input_->Cardinality(options); }
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override {
    inputs->push_back(input_);
    return absl::OkStatus();
  }
  absl::Status CheckExternalState() const override { return input_->CheckExternalState(); }

 protected:
  absl::Status AsGraphDefInternal(data::SerializationContext* context, DatasetGraphDefBuilder* builder,
                                  tensorflow::Node** output) const override {
    tensorflow::Node* input = nullptr;
    TF_RETURN_IF_ERROR(builder->AddInputDataset(context, input_, &input));
    tensorflow::AttrValue number, ids;
    builder->BuildAttrValue(number_, &number);
    builder->BuildAttrValue(ids_, &ids);
    return builder->AddDataset(this, {input}, {{"number", number}, {"ids", ids}}, output);
  }

 private:
  class Iterator : public data::DatasetIterator<NotedDataset> {
   public:
    explicit Iterator(const Params& params)
        : data::DatasetIterator<NotedDataset>(params),
          is_inner_(params.prefix.find(kName) != params.prefix.rfind(kName)) {}

    absl::Status Initialize(data::IteratorContext* context) override {
      return dataset()->input_->MakeIterator(context, this, prefix(), &input_);
    }

   protected:
    absl::Status GetNextInternal(data::IteratorContext* context, std::vector<tensorflow::Tensor>* element,
                                 bool* is_end) override {
      Note note{now_s(), 0.0, kPending, static_cast<double>(index_), is_inner_ ? 1.0 : 0.0};
      Notes::all().begin(dataset()->number_, this, note);
      note.examples = kEnd;
      absl::Status status = input_->GetNext(context, element, is_end);
      note.delivered_s = now_s();
      if (status.ok() && !*is_end) {
        ++index_;
        if (dataset()->ids_) {
          const size_t left = element->size() - 2;
          Notes::all().add_ids(dataset()->number_, (*element)[left], (*element)[left + 1]);
          element->resize(left);
        }
        note.examples = !element->empty() && (*element)[0].dims() > 0 ? (*element)[0].dim_size(0) : 1;
      }
      Notes::all().end(dataset()->number_, this, note);
      return status;
    }
    std::shared_ptr<data::model::Node> CreateNode(data::IteratorContext* context,
                                                  data::model::Node::Args args) const override {
      return data::model::MakeKnownRatioNode(std::move(args), /*ratio=*/1);
    }
    absl::Status SaveInternal(data::SerializationContext* context, data::IteratorStateWriter* writer) override {
      return SaveInput(context, writer, input_);
    }
    absl::Status RestoreInternal(data::IteratorContext* context, data::IteratorStateReader* reader) override {
      return RestoreInput(context, reader, input_);
    }

   private:
    std::unique_ptr<data::IteratorBase> input_;
    int64_t index_ = 0;  // an iterator has one caller at a time
    const bool is_inner_;
  };

  const DatasetBase* const input_;
  const int64_t number_;
  const bool ids_;
  const tensorflow::DataTypeVector types_;
  const std::vector<tensorflow::PartialTensorShape> shapes_;
};

class NotedDatasetOp : public data::UnaryDatasetOpKernel {
 public:
  explicit NotedDatasetOp(tensorflow::OpKernelConstruction* construction) : UnaryDatasetOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("number", &number_));
    OP_REQUIRES_OK(construction, construction->GetAttr("ids", &ids_));
  }
  void MakeDataset(tensorflow::OpKernelContext* context, DatasetBase* input, DatasetBase** output) override {
    const tensorflow::DataTypeVector& types = input->output_dtypes();
    const size_t count = types.size();
    OP_REQUIRES(context,
                !ids_ || (count > 2 && types[count - 2] == tensorflow::DT_INT64 &&
                          types[count - 1] == tensorflow::DT_INT64),
                tensorflow::errors::InvalidArgument("elements do not end with ids and epochs, both int64"));
    *output = new NotedDataset(context, input, number_, ids_);
  }

 private:
  int64_t number_ = 0;
  bool ids_ = false;
};

class TakeNotesOp : public tensorflow::OpKernel {
 public:
  explicit TakeNotesOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("number", &number_));
  }
  void Compute(tensorflow::OpKernelContext* context) override {
    const std::vector<Note> taken = Notes::all().take(number_);
    tensorflow::Tensor* output = nullptr;
    const tensorflow::TensorShape shape({static_cast<int64_t>(taken.size()), kColumns});
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &output));
    auto rows = output->matrix<double>();
    for (size_t row = 0; row < taken.size(); ++row) {
      rows(row, 0) = taken[row].asked_s;
      rows(row, 1) = taken[row].delivered_s;
      rows(row, 2) = taken[row].examples;
      rows(row, 3) = taken[row].index;
      rows(row, 4) = taken[row].is_inner;
    }
  }

 private:
  int64_t number_ = 0;
};

class TakeIdsOp : public tensorflow::OpKernel {
 public:
  explicit TakeIdsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("number", &number_));
  }
  void Compute(tensorflow::OpKernelContext* context) override {
    const Ids taken = Notes::all().take_ids(number_);
    int64_t count = 0;
    for (const auto& [ids, epochs] : taken) {
      OP_REQUIRES(context, ids.NumElements() == epochs.NumElements(),
                  tensorflow::errors::InvalidArgument("a batch has not as many epochs as ids"));
      count += ids.NumElements();
    }
    tensorflow::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({2, count}), &output));
    int64_t* to = output->flat<int64_t>().data();
    for (const auto& [ids, epochs] : taken) {
      std::copy_n(ids.flat<int64_t>().data(), ids.NumElements(), to);
      std::copy_n(epochs.flat<int64_t>().data(), ids.NumElements(), to + count);
      to += ids.NumElements();
    }
  }

 private:
  int64_t number_ = 0;
};

REGISTER_OP("TfhetNotedDataset")
    .Input("input_dataset: variant")
    .Output("handle: variant")
    .Attr("number: int")
    .Attr("ids: bool = false")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    });
REGISTER_OP("TfhetTakeNotes")
    .Output("notes: double")
    .Attr("number: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Matrix(context->UnknownDim(), kColumns));
      return absl::OkStatus();
    });
REGISTER_OP("TfhetTakeIds")
    .Output("ids_and_epochs: int64")
    .Attr("number: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Matrix(2, context->UnknownDim()));
      return absl::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("TfhetNotedDataset").Device(tensorflow::DEVICE_CPU), NotedDatasetOp);
REGISTER_KERNEL_BUILDER(Name("TfhetTakeNotes").Device(tensorflow::DEVICE_CPU), TakeNotesOp);
REGISTER_KERNEL_BUILDER(Name("TfhetTakeIds").Device(tensorflow::DEVICE_CPU), TakeIdsOp);

}  // namespace
