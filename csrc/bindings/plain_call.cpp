#include "bindings/plain_call.h"

#include <ATen/Dispatch_v2.h>
#include <torch/csrc/Dtype.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "core/device.h"
#include "core/generator.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;
using runtime::ProgramNumber;

constexpr uint64_t kAlignmentBytes = 64;

template <typename T>
ProgramNumber bytes_of(T number) {
  ProgramNumber bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// Integers wrap around, as everywhere on the device; what is no number becomes 0.
uint64_t wrapped_integer(const c10::Scalar& number) {
  if (number.isIntegral(/*includeBool=*/true)) return static_cast<uint64_t>(number.toLong());
  const double real = number.toComplexDouble().real();
  if (!std::isfinite(real)) return 0;
  const double low = std::fmod(std::trunc(real), 0x1p64);
  return low < 0 ? -static_cast<uint64_t>(-low) : static_cast<uint64_t>(low);
}

py::object as_python(const c10::Scalar& number) {
  if (number.isBoolean()) return py::bool_(number.toBool());
  if (number.isIntegral(/*includeBool=*/false)) return py::int_(number.toLong());
  if (number.isFloatingPoint()) return py::float_(number.toDouble());
  return py::cast(static_cast<std::complex<double>>(number.toComplexDouble()));
}

// Raises where the dtype cannot hold the number.
void expect_held(const c10::Scalar& number, c10::ScalarType dtype) {
  AT_DISPATCH_V2(dtype, "number", AT_WRAP([&] { static_cast<void>(number.to<scalar_t>()); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_FLOAT8_TYPES),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), c10::kHalf, c10::kBFloat16, c10::kBool);
}

c10::ScalarType dtype_from(const py::handle& dtype) {
  TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "a number has a source and dtypes");
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

std::vector<PlainNumber> numbers_from(const py::object& numbers) {
  std::vector<PlainNumber> read;
  if (!py::isinstance<py::list>(numbers)) return read;
  for (const py::handle& number : numbers) {
    const auto row = py::cast<py::tuple>(number);
    read.push_back({py::cast<int64_t>(row[0]), dtype_from(row[1]),
                    row[2].is_none() ? std::nullopt : std::optional(dtype_from(row[2]))});
  }
  return read;
}

const runtime::LoadedProgram* program_in(const py::object& capsule) {
  if (capsule.is_none()) return nullptr;
  const auto* program = static_cast<runtime::LoadedProgram*>(
      PyCapsule_GetPointer(capsule.ptr(), runtime::kLoadedProgramCapsule));
  if (program == nullptr) throw py::error_already_set();
  return program;
}

c10::Device device_of(const CallArguments& arguments) {
  for (const at::Tensor& tensor : arguments.tensors) {
    if (tensor.is_privateuseone()) return tensor.device();
  }
  return {kNeuron, current_device()};
}

uint64_t host_address(const void* data, const at::Tensor& tensor, uint64_t host_offset) {
  return reinterpret_cast<uint64_t>(data) + (tensor.is_cpu() ? 0 : host_offset);
}

[[noreturn]] void rethrow_raised() {
  py::error_already_set raised;
  rethrow(raised);
}

}  // namespace

ProgramNumber program_number(const c10::Scalar& number, c10::ScalarType dtype) {
  const c10::complex<double> plain = number.toComplexDouble();
  switch (dtype) {
    case c10::ScalarType::Bool:
      return bytes_of(plain != c10::complex<double>(0));
    case c10::ScalarType::Float:
      return bytes_of(static_cast<float>(plain.real()));
    case c10::ScalarType::Double:
      return bytes_of(plain.real());
    case c10::ScalarType::ComplexFloat:
      return bytes_of(c10::complex<float>(plain));
    case c10::ScalarType::ComplexDouble:
      return bytes_of(plain);
    default:
      return bytes_of(wrapped_integer(number));  // little-endian: the low bytes come first
  }
}

PlainCall::PlainCall(py::object capsule, std::vector<int64_t> inputs, ResultTensors new_tensors,
                     std::vector<PlainResult> results, py::object numbers, int64_t random_positions,
                     std::vector<PlainReturn> returns, py::object raise_error)
    : capsule_(std::move(capsule)),
      program_(program_in(capsule_.get())),
      inputs_(std::move(inputs)),
      new_tensors_(std::move(new_tensors)),
      results_(std::move(results)),
      numbers_(numbers_from(numbers)),
      number_function_(py::isinstance<py::list>(numbers) ? py::none() : std::move(numbers)),
      random_positions_(random_positions),
      returns_(std::move(returns)),
      raise_error_(std::move(raise_error)) {}

void PlainCall::write_numbers(const CallArguments& arguments, const c10::Device& device,
                              std::vector<ProgramNumber>& written) const {
  if (number_function_.get().is_none()) {
    for (const PlainNumber& number : numbers_) {
      const c10::Scalar& given = arguments.numbers[static_cast<size_t>(number.source)];
      if (number.holder) expect_held(given, *number.holder);
      written.push_back(program_number(given, number.dtype));
    }
    return;
  }
  py::list given;
  for (const c10::Scalar& number : arguments.numbers) given.append(as_python(number));
  py::object stream = py::make_tuple(0, 0);
  if (random_positions_ > 0) {
    const RandomStream reserved = reserve_random(arguments.generator, device, random_positions_);
    stream = py::make_tuple(reserved.seed, reserved.offset);
  }
  const auto packed = py::cast<std::string>(number_function_.get()(given, stream));
  written.resize(packed.size() / sizeof(ProgramNumber));
  if (!written.empty()) std::memcpy(written.data(), packed.data(), packed.size());
}

void PlainCall::run(const CallArguments& arguments, size_t argument_count,
                    torch::jit::Stack* stack) const {
  runs_.fetch_add(1, std::memory_order_relaxed);
  const auto host_offset = static_cast<uint64_t>(runtime_or_raise().host_offset());
  const c10::Device device = device_of(arguments);
  std::vector<at::Tensor> made = new_tensors_.allocate(device);
  std::vector<at::Tensor> results;
  std::vector<uint64_t> outputs;
  results.reserve(results_.size());
  size_t next = 0;
  for (const PlainResult& result : results_) {
    results.push_back(result.written == kNewTensor
                          ? std::move(made[next++])
                          : arguments.tensors[static_cast<size_t>(result.written)]);
    if (!result.is_output) continue;
    const at::Tensor& tensor = results.back();
    outputs.push_back(host_address(tensor.mutable_data_ptr(), tensor, host_offset) -
                      static_cast<uint64_t>(result.offset_bytes));
  }
  if (program_ != nullptr) {
    std::vector<uint64_t> inputs;
    inputs.reserve(inputs_.size());
    for (const int64_t position : inputs_) {
      const at::Tensor& tensor = arguments.tensors[static_cast<size_t>(position)];
      const uint64_t address = host_address(tensor.const_data_ptr(), tensor, host_offset);
      inputs.push_back(address / kAlignmentBytes * kAlignmentBytes);
    }
    std::vector<ProgramNumber> numbers;
    int64_t error = 0;
    try {
      write_numbers(arguments, device, numbers);
      error = program_->run(program_->program, inputs.data(), numbers.data(), outputs.data());
      if (error > 0) raise_error_.get()(error);
    } catch (py::error_already_set& raised) {
      rethrow(raised);
    }
    if (error == runtime::kRaised) rethrow_raised();
  }
  torch::jit::drop(*stack, argument_count);
  for (const PlainReturn& returned : returns_) {
    if (returned.is_list) {
      c10::List<at::Tensor> list;
      for (const int64_t i : returned.results) list.push_back(results[static_cast<size_t>(i)]);
      stack->emplace_back(std::move(list));
    } else if (returned.results.empty()) {
      stack->emplace_back(at::Tensor());
    } else {
      stack->emplace_back(results[static_cast<size_t>(returned.results.front())]);
    }
  }
}

}  // namespace torch_trainium
