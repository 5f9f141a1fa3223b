#include "core/generator.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/CallOnce.h>

#include <array>
#include <cstring>
#include <limits>

#include "core/device.h"
#include "core/threefry.h"

namespace torch_trainium {
namespace {

constexpr uint64_t kOffsetAlignment = 4;
constexpr int64_t kStateBytes = sizeof(uint64_t) + sizeof(int64_t);

void check_offset(uint64_t offset) {
  TORCH_CHECK(offset % kOffsetAlignment == 0, "offset must be a multiple of 4, but got ", offset);
  TORCH_CHECK(offset < threefry::kPositionCount, "offset must be below 2^62, but got ", offset);
}

}  // namespace

NeuronGenerator::NeuronGenerator(c10::DeviceIndex device)
    : NeuronGenerator(device, c10::make_intrusive<State>(c10::default_rng_seed_val, 0)) {}

NeuronGenerator::NeuronGenerator(c10::DeviceIndex device, c10::intrusive_ptr<State> state)
    : c10::GeneratorImpl(c10::Device(kNeuron, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_(std::move(state)) {}

c10::DeviceType NeuronGenerator::device_type() { return kNeuron; }

void NeuronGenerator::set_current_seed(uint64_t seed) {
  state_->seed = seed;
  state_->offset = 0;
}

void NeuronGenerator::set_offset(uint64_t offset) {
  check_offset(offset);
  state_->offset = offset;
}

uint64_t NeuronGenerator::get_offset() const { return state_->offset; }

uint64_t NeuronGenerator::current_seed() const { return state_->seed; }

uint64_t NeuronGenerator::seed() {
  // 53 bits, so that the seed survives a float64 (a checkpoint in JSON, say).
  const uint64_t seed = c10::detail::getNonDeterministicRandom(/*is_cuda=*/true);
  set_current_seed(seed);
  return seed;
}

void NeuronGenerator::set_state(const c10::TensorImpl& new_state) {
  TORCH_CHECK_TYPE(new_state.layout() == at::kStrided && new_state.device().is_cpu() &&
                       new_state.dtype() == at::kByte,
                   "RNG state must be a torch.ByteTensor on the CPU, but got a tensor of ",
                   new_state.dtype(), " on ", new_state.device());
  TORCH_CHECK(new_state.is_contiguous(), "RNG state must be contiguous");
  TORCH_CHECK(new_state.numel() == kStateBytes, "RNG state of a neuron generator is ", kStateBytes,
              " bytes (seed and offset), but got ", new_state.numel(),
              " bytes; a state taken from a CPU generator does not fit");
  const auto* bytes = new_state.data_dtype_initialized<uint8_t>();
  State read(0, 0);
  std::memcpy(&read.seed, bytes, sizeof(read.seed));
  std::memcpy(&read.offset, bytes + sizeof(read.seed), sizeof(read.offset));
  check_offset(read.offset);
  state_->seed = read.seed;
  state_->offset = read.offset;
}

c10::intrusive_ptr<c10::TensorImpl> NeuronGenerator::get_state() const {
  const at::TensorBase state = at::detail::empty_cpu({kStateBytes}, at::kByte, std::nullopt,
                                                     std::nullopt, std::nullopt, std::nullopt);
  auto* bytes = static_cast<uint8_t*>(state.mutable_data_ptr());
  std::memcpy(bytes, &state_->seed, sizeof(state_->seed));
  std::memcpy(bytes + sizeof(state_->seed), &state_->offset, sizeof(state_->offset));
  return state.getIntrusivePtr();
}

void NeuronGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& generator) {
  const auto* other = dynamic_cast<const NeuronGenerator*>(generator.get());
  TORCH_CHECK(other != nullptr, "Expected a neuron generator");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> NeuronGenerator::graphsafe_get_state() const {
  return c10::intrusive_ptr<c10::GeneratorImpl>::unsafe_steal_from_new(
      new NeuronGenerator(device().index(), state_));
}

NeuronGenerator* NeuronGenerator::clone_impl() const {
  return new NeuronGenerator(device().index(),
                             c10::make_intrusive<State>(state_->seed, state_->offset));
}

RandomStream NeuronGenerator::reserve(int64_t elements) {
  TORCH_INTERNAL_ASSERT_DEBUG_ONLY(elements >= 0);
  const RandomStream stream{state_->seed, state_->offset};
  const uint64_t advance = (static_cast<uint64_t>(elements) + kOffsetAlignment - 1) /
                           kOffsetAlignment * kOffsetAlignment;
  TORCH_CHECK(advance < threefry::kPositionCount - stream.offset,
              "This neuron generator has used up the 2^62 positions of seed ", stream.seed,
              "; give it another seed");
  state_->offset += advance;
  return stream;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  struct Slot {
    c10::once_flag created;
    at::Generator generator;
  };
  // Never destroyed: threads may still draw while the process exits.
  static auto& slots = *new std::array<Slot, std::numeric_limits<c10::DeviceIndex>::max()>;
  check_device(device);
  Slot& slot = slots[static_cast<size_t>(device)];
  c10::call_once(slot.created, [&] {
    slot.generator = create_generator(device);
    slot.generator.seed();
  });
  return slot.generator;
}

at::Generator create_generator(c10::DeviceIndex device) {
  check_device(device);
  return at::make_generator<NeuronGenerator>(device);
}

RandomStream reserve_random(const std::optional<at::Generator>& generator, c10::Device device,
                            int64_t elements) {
  // A device generator or operand brings a CPU result here.
  TORCH_CHECK(device.type() == kNeuron || !generator.has_value(), "Expected a '", device,
              "' device type for generator but found '", generator->device(), "'");
  TORCH_CHECK(device.type() == kNeuron,
              "Expected all tensors to be on the same device, but found at least two devices, "
              "neuron and ",
              device, "!");
  auto* neuron =
      at::get_generator_or_default<NeuronGenerator>(generator, default_generator(device.index()));
  const std::lock_guard<std::mutex> lock(neuron->mutex_);
  return neuron->reserve(elements);
}

}  // namespace torch_trainium
