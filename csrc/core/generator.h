// Counter-based random generator of a device. Its whole state is a 64-bit seed,
// the key of the cipher in core/threefry.h, and an offset: the first position of
// the seed's stream that no operator has used yet.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <optional>

namespace torch_trainium {

// The positions an operator may use: element i uses position `offset + i` of the
// stream of `seed`.
struct RandomStream {
  uint64_t seed;
  uint64_t offset;
};

class NeuronGenerator final : public c10::GeneratorImpl {
 public:
  explicit NeuronGenerator(c10::DeviceIndex device);

  static c10::DeviceType device_type();

  void set_current_seed(uint64_t seed) override;
  // `offset` is a multiple of 4 (the rule of PyTorch's generators with an offset,
  // which DTensor relies on) below 2^62.
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  // 16 bytes, native byte order: seed (uint64), offset (int64).
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  // These share the state instead of copying it.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& generator) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  // Hands out the positions of an operator on `elements` elements and advances
  // the offset by that number, rounded up to a multiple of 4. The caller holds
  // mutex_.
  RandomStream reserve(int64_t elements);

 private:
  struct State : c10::intrusive_ptr_target {
    State(uint64_t seed, uint64_t offset) : seed(seed), offset(offset) {}
    uint64_t seed;
    uint64_t offset;
  };

  NeuronGenerator(c10::DeviceIndex device, c10::intrusive_ptr<State> state);
  NeuronGenerator* clone_impl() const override;

  c10::intrusive_ptr<State> state_;
};

// The default generator of a device; created on first use with a seed from the
// operating system's entropy. Creating and using it does not start the device.
const at::Generator& default_generator(c10::DeviceIndex device);
// A new generator, seeded with PyTorch's default seed.
at::Generator create_generator(c10::DeviceIndex device);

// Reserves from `generator`, or from the default generator of `device` where it
// is absent; raises for a generator or a device of another type.
RandomStream reserve_random(const std::optional<at::Generator>& generator, c10::Device device,
                            int64_t elements);

}  // namespace torch_trainium
