// The numbers the cost model computes with. They come from data files by name, so that no
// formula holds a measured value; cores.toml and calibrated.toml say what each one means.
#pragma once

#include <map>
#include <string>

namespace torch_trainium::timeline {

// Facts of one physical core, then calibrated constants. Nanoseconds, GHz, GB/s and bytes.
#define TORCH_TRAINIUM_CORE_CONSTANTS(_) \
  _(physical_cores)                      \
  _(lanes)                               \
  _(sbuf_bytes)                          \
  _(psum_columns)                        \
  _(tensor_ghz)                          \
  _(tensor_rows)                         \
  _(tensor_columns)                      \
  _(tensor_minimum_cycles)               \
  _(tensor_weight_load_cycles)           \
  _(tensor_fp32_passes)                  \
  _(tensor_fp8_speedup)                  \
  _(tensor_mx_speedup)                   \
  _(tensor_warmup_ns)                    \
  _(vector_ghz)                          \
  _(vector_16bit_speedup)                \
  _(vector_32bit_speedup)                \
  _(scalar_ghz)                          \
  _(scalar_table_load_ns)                \
  _(gpsimd_ghz)                          \
  _(gpsimd_lanes)                        \
  _(instruction_ns)                      \
  _(instruction_columns)                 \
  _(hbm_gbps)                            \
  _(dma_engines)                         \
  _(dma_engine_gbps)                     \
  _(dma_descriptor_ns)                   \
  _(dma_software_descriptor_ns)          \
  _(dma_startup_ns)                      \
  _(dma_transpose_efficiency)            \
  _(link_gbps)                           \
  _(link_step_ns)                        \
  _(chip_link_gbps)                      \
  _(chip_step_ns)                        \
  _(node_link_gbps)                      \
  _(node_step_ns)                        \
  _(host_link_gbps)                      \
  _(host_shared_gbps)                    \
  _(host_transfer_ns)                    \
  _(host_memory_gbps)

#define TORCH_TRAINIUM_CALIBRATED_CONSTANTS(_) \
  _(tensor_efficiency)                         \
  _(hbm_efficiency)                            \
  _(stream_efficiency)                         \
  _(gather_piece_bytes)                        \
  _(eager_exposed_fraction)                    \
  _(kernel_exposed_fraction)                   \
  _(graph_exposed_fraction)                    \
  _(program_start_ns)                          \
  _(eager_program_ns)                          \
  _(kernel_operator_latency_ns)                \
  _(operator_latency_ns)                       \
  _(collective_start_ns)                       \
  _(bulk_collective_start_ns)

#define TORCH_TRAINIUM_CONSTANTS(_) \
  TORCH_TRAINIUM_CORE_CONSTANTS(_)  \
  TORCH_TRAINIUM_CALIBRATED_CONSTANTS(_)

struct Constants {
#define TORCH_TRAINIUM_FIELD(name) double name = 0;
  TORCH_TRAINIUM_CONSTANTS(TORCH_TRAINIUM_FIELD)
#undef TORCH_TRAINIUM_FIELD
};

// Throws std::invalid_argument where a name is missing, unknown, or its value not finite and >= 0.
Constants constants_from(const std::map<std::string, double>& values);

}  // namespace torch_trainium::timeline
