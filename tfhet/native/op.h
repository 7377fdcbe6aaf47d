// A TensorFlow op on the CPU in a few lines, through TensorFlow's C API: it compiles in a second or two, and its binary
// interface is the same from one version to the next.
//
// A kernel is a class with a constructor that takes Attributes and a method compute(Context&); both may throw Failure.
// One `static tfhet::Op<Kernel> op{...};` at the end of a file registers it when the library is loaded.

#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "failure.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#include "tsl/platform/ctstring.h"

namespace tfhet {

inline Code code_of(TF_Code code) { return static_cast<Code>(code); }  // the numbers are the same
inline TF_Code code_of(Code code) { return static_cast<TF_Code>(code); }

class Status {
 public:
  Status() : status_(TF_NewStatus()) {}
  ~Status() { TF_DeleteStatus(status_); }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  operator TF_Status*() const { return status_; }
  void check() const {
    if (TF_GetCode(status_) != TF_OK) throw Failure{code_of(TF_GetCode(status_)), TF_Message(status_)};
  }

 private:
  TF_Status* status_;
};

template <class T>
struct DataType;
template <>
struct DataType<uint8_t> {
  static constexpr TF_DataType value = TF_UINT8;
};
template <>
struct DataType<float> {
  static constexpr TF_DataType value = TF_FLOAT;
};
template <>
struct DataType<int32_t> {
  static constexpr TF_DataType value = TF_INT32;
};
template <>
struct DataType<int64_t> {
  static constexpr TF_DataType value = TF_INT64;
};
template <>
struct DataType<bool> {
  static constexpr TF_DataType value = TF_BOOL;
};

// What was fixed when the graph was built.
class Attributes {
 public:
  explicit Attributes(TF_OpKernelConstruction* construction) : construction_(construction) {}

  int64_t integer(const char* name) const { return one<int64_t>(&TF_OpKernelConstruction_GetAttrInt64, name); }
  float number(const char* name) const { return one<float>(&TF_OpKernelConstruction_GetAttrFloat, name); }
  bool flag(const char* name) const { return one<TF_Bool>(&TF_OpKernelConstruction_GetAttrBool, name) != 0; }
  std::string text(const char* name) const {
    int32_t count = 0, size = 0;
    Status status;
    TF_OpKernelConstruction_GetAttrSize(construction_, name, &count, &size, status);
    status.check();
    std::string value(size, '\0');
    TF_OpKernelConstruction_GetAttrString(construction_, name, value.data(), value.size(), status);
    status.check();
    return value;
  }
  TF_DataType type(const char* name) const { return one<TF_DataType>(&TF_OpKernelConstruction_GetAttrType, name); }
  std::vector<float> numbers(const char* name) const {
    int32_t count = 0, size = 0;
    Status status;
    TF_OpKernelConstruction_GetAttrSize(construction_, name, &count, &size, status);
    status.check();
    std::vector<float> values(count);
    TF_OpKernelConstruction_GetAttrFloatList(construction_, name, values.data(), count, status);
    status.check();
    return values;
  }

 private:
  template <class T>
  T one(void (*get)(TF_OpKernelConstruction*, const char*, T*, TF_Status*), const char* name) const {
    T value{};
    Status status;
    get(construction_, name, &value, status);
    status.check();
    return value;
  }

  TF_OpKernelConstruction* construction_;
};

using Shape = std::vector<int64_t>;

inline int64_t elements(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

// One input, alive as long as this.
class Input {
 public:
  Input(TF_OpKernelContext* context, int index) {
    Status status;
    TF_Tensor* tensor = nullptr;
    TF_GetInput(context, index, &tensor, status);
    status.check();
    tensor_.reset(tensor);
    for (int axis = 0; axis < TF_NumDims(tensor); ++axis) shape.push_back(TF_Dim(tensor, axis));
  }

  TF_DataType type() const { return TF_TensorType(tensor_.get()); }

  template <class T>
  const T* data() const {
    return static_cast<const T*>(TF_TensorData(tensor_.get()));
  }
  // Of a string tensor.
  std::string_view bytes(int64_t index) const {
    const TF_TString* text = data<TF_TString>() + index;
    return {TF_TString_GetDataPointer(text), TF_TString_GetSize(text)};
  }
  // Raises InvalidArgumentError unless it has this many axes.
  const Input& with_rank(size_t rank, const char* name) const {
    if (shape.size() != rank)
      invalid(std::string(name) + " has " + std::to_string(shape.size()) + " axes, not " + std::to_string(rank));
    return *this;
  }

  Shape shape;

 private:
  struct Delete {
    void operator()(TF_Tensor* tensor) const { TF_DeleteTensor(tensor); }
  };
  std::unique_ptr<TF_Tensor, Delete> tensor_;
};

// One call of the op.
class Context {
 public:
  explicit Context(TF_OpKernelContext* context) : context_(context) {}

  Input input(int index) const { return Input(context_, index); }

  // Its content is undefined until it is written.
  template <class T>
  T* output(int index, const Shape& shape) const {
    expect(index, DataType<T>::value, shape, sizeof(T));
    Status status;
    TF_Tensor* tensor = TF_AllocateOutput(context_, index, DataType<T>::value, shape.data(),
                                          static_cast<int>(shape.size()), elements(shape) * sizeof(T), status);
    status.check();
    T* data = static_cast<T*>(TF_TensorData(tensor));
    TF_DeleteTensor(tensor);  // the context keeps it
    return data;
  }

  // Of strings: empty ones, for TF_TString_Copy to fill.
  TF_TString* strings(int index, const Shape& shape) const {
    expect(index, TF_STRING, shape, sizeof(TF_TString));
    Status status;
    TF_Tensor* tensor = TF_AllocateOutput(context_, index, TF_STRING, shape.data(), static_cast<int>(shape.size()),
                                          elements(shape) * sizeof(TF_TString), status);
    status.check();
    auto* data = static_cast<TF_TString*>(TF_TensorData(tensor));
    TF_DeleteTensor(tensor);
    return data;
  }

 private:
  // TensorFlow would end the process over either.
  void expect(int index, TF_DataType type, const Shape& shape, size_t each) const {
    if (index >= TF_NumOutputs(context_) || TF_ExpectedOutputDataType(context_, index) != type)
      invalid("output " + std::to_string(index) + " is not of the type that the kernel writes");
    int64_t bytes = static_cast<int64_t>(each);
    for (int64_t size : shape)
      if (size < 0 || (size > 0 && __builtin_mul_overflow(bytes, size, &bytes)))
        throw Failure{Code::resource_exhausted, "output " + std::to_string(index) + " is too large"};
  }

  TF_OpKernelContext* context_;
};

// Registers the op `name` and its kernel. Specifications as REGISTER_OP has them: "images: T", "T: {uint8, float}".
template <class Kernel>
class Op {
 public:
  Op(const char* name, std::initializer_list<const char*> inputs, std::initializer_list<const char*> outputs,
     std::initializer_list<const char*> attributes = {}, bool stateful = false) {
    TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(name);
    for (const char* attribute : attributes) TF_OpDefinitionBuilderAddAttr(builder, attribute);
    for (const char* input : inputs) TF_OpDefinitionBuilderAddInput(builder, input);
    for (const char* output : outputs) TF_OpDefinitionBuilderAddOutput(builder, output);
    // What it gives depends on more than its inputs: on a file, which must not be read when the graph is optimized.
    TF_OpDefinitionBuilderSetIsStateful(builder, stateful);
    TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, &unknown_shapes);
    Status status;
    TF_RegisterOpDefinition(builder, status);
    auto* kernel = TF_NewKernelBuilder(name, "CPU", &create, &compute, &destroy);
    TF_RegisterKernelBuilder(name, kernel, status);
  }

 private:
  // Python tells the graph the shapes: it knows them from the stage's spec.
  static void unknown_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
    TF_ShapeInferenceContextSetUnknownShape(context, status);
  }
  static void* create(TF_OpKernelConstruction* construction) {
    try {
      return new Kernel(Attributes(construction));
    } catch (const Failure& failure) {
      Status status;
      TF_SetStatus(status, code_of(failure.code), failure.message.c_str());
      TF_OpKernelConstruction_Failure(construction, status);
      return nullptr;
    } catch (const std::exception& error) {
      Status status;
      TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, error.what());
      TF_OpKernelConstruction_Failure(construction, status);
      return nullptr;
    }
  }
  static void compute(void* kernel, TF_OpKernelContext* context) {
    try {
      Context call(context);
      static_cast<Kernel*>(kernel)->compute(call);
    } catch (const Failure& failure) {
      Status status;
      TF_SetStatus(status, code_of(failure.code), failure.message.c_str());
      TF_OpKernelContext_Failure(context, status);
    } catch (const std::exception& error) {  // no memory, mostly; past this frame it would end the process
      Status status;
      TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, error.what());
      TF_OpKernelContext_Failure(context, status);
    }
  }
  static void destroy(void* kernel) { delete static_cast<Kernel*>(kernel); }
};

}  // namespace tfhet
