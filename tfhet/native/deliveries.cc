// A data set that notes when each of its elements was asked for and delivered, and an op that takes the notes.
//
// It is written against TensorFlow's C++ API, because the C API has no data sets: it compiles in 7 s of CPU time.

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

using tensorflow::data::DatasetBase;
namespace data = tensorflow::data;

constexpr int kColumns = 4;

// One delivery. Times are in seconds on CLOCK_MONOTONIC.
struct Note {
  double asked_s;
  double delivered_s;
  double examples;  // -1 at the end of a pass
  double index;     // within the pass, from 0
};

// The notes that were not taken yet, of each data set by its number.
class Notes {
 public:
  static Notes& all() {
    static Notes* notes = new Notes;  // never destroyed: data sets may outlive every static object
    return *notes;
  }
  void add(int64_t number, const Note& note) {
    std::lock_guard<std::mutex> guard(lock_);
    notes_[number].push_back(note);
  }
  std::vector<Note> take(int64_t number) {
    std::vector<Note> taken;
    std::lock_guard<std::mutex> guard(lock_);
    taken.swap(notes_[number]);
    return taken;
  }

 private:
  std::mutex lock_;
  std::unordered_map<int64_t, std::vector<Note>> notes_;
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class NotedDataset : public DatasetBase {
 public:
  NotedDataset(tensorflow::OpKernelContext* context, const DatasetBase* input, int64_t number)
      : DatasetBase(data::DatasetContext(context)), input_(input), number_(number) {
    input_->Ref();
  }
  ~NotedDataset() override { input_->Unref(); }

  std::unique_ptr<data::IteratorBase> MakeIteratorInternal(const std::string& prefix) const override {
    return std::make_unique<Iterator>(Iterator::Params{this, prefix + "::TfhetNoted"});
  }
  const tensorflow::DataTypeVector& output_dtypes() const override { return input_->output_dtypes(); }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override { return input_->output_shapes(); }
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
    tensorflow::AttrValue number;
    builder->BuildAttrValue(number_, &number);
    return builder->AddDataset(this, {input}, {{"number", number}}, output);
  }

 private:
  class Iterator : public data::DatasetIterator<NotedDataset> {
   public:
    explicit Iterator(const Params& params) : data::DatasetIterator<NotedDataset>(params) {}

    absl::Status Initialize(data::IteratorContext* context) override {
      return dataset()->input_->MakeIterator(context, this, prefix(), &input_);
    }

   protected:
    absl::Status GetNextInternal(data::IteratorContext* context, std::vector<tensorflow::Tensor>* element,
                                 bool* is_end) override {
      Note note{now_s(), 0.0, -1.0, static_cast<double>(index_)};
      absl::Status status = input_->GetNext(context, element, is_end);
      note.delivered_s = now_s();
      if (status.ok() && !*is_end) {
        ++index_;
        note.examples = !element->empty() && (*element)[0].dims() > 0 ? (*element)[0].dim_size(0) : 1;
      }
      Notes::all().add(dataset()->number_, note);
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
  };

  const DatasetBase* const input_;
  const int64_t number_;
};

class NotedDatasetOp : public data::UnaryDatasetOpKernel {
 public:
  explicit NotedDatasetOp(tensorflow::OpKernelConstruction* construction) : UnaryDatasetOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("number", &number_));
  }
  void MakeDataset(tensorflow::OpKernelContext* context, DatasetBase* input, DatasetBase** output) override {
    *output = new NotedDataset(context, input, number_);
  }

 private:
  int64_t number_ = 0;
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
    }
  }

 private:
  int64_t number_ = 0;
};

REGISTER_OP("TfhetNotedDataset")
    .Input("input_dataset: variant")
    .Output("handle: variant")
    .Attr("number: int")
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
REGISTER_KERNEL_BUILDER(Name("TfhetNotedDataset").Device(tensorflow::DEVICE_CPU), NotedDatasetOp);
REGISTER_KERNEL_BUILDER(Name("TfhetTakeNotes").Device(tensorflow::DEVICE_CPU), TakeNotesOp);

}  // namespace
