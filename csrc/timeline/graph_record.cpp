#include "timeline/graph_record.h"

#include <atomic>
#include <stdexcept>
#include <utility>

#include "timeline/names.h"

namespace torch_trainium::timeline {
namespace {

std::atomic<uint64_t> graphs{0};

}  // namespace

CallRecord::CallRecord(const std::string& cost_class, const std::vector<OperandRecord>& operands,
                       int64_t result_bytes)
    : cost_class_(named<CostClass>(kClassNames, cost_class, "cost class")),
      result_bytes_(result_bytes) {
  sizes_.reserve(operands.size());
  for (const auto& [sizes, element, element_bytes, is_dense, is_permuted, is_written, is_on_host] :
       operands) {
    sizes_.push_back(sizes);
    int64_t elements = 1;
    for (const int64_t size : sizes) elements *= size;
    operands_.push_back({.sizes = sizes_.back().data(),
                         .rank = static_cast<int>(sizes.size()),
                         .element = named<Element>(kElementNames, element, "element"),
                         .element_bytes = static_cast<uint8_t>(element_bytes),
                         .is_dense = is_dense,
                         .is_written = is_written,
                         .is_on_host = is_on_host,
                         .elements = elements,
                         .is_permuted = is_permuted});
  }
}

OperatorCall CallRecord::view() const {
  return {cost_class_, operands_.data(), static_cast<int>(operands_.size()), result_bytes_};
}

GraphRecord::GraphRecord(std::vector<NodeRecord> records)
    : records_(std::move(records)), id_(++graphs) {
  nodes_.reserve(records_.size());
  for (const auto& [call, producers, is_output, is_fused, collective, group] : records_) {
    const OperatorCall view = call->view();
    if (static_cast<int>(producers.size()) != view.operand_count) {
      throw std::invalid_argument("every operand needs a producer or -1");
    }
    const int32_t here = static_cast<int32_t>(nodes_.size());
    for (const int32_t producer : producers) {
      if (producer < kGraphInput || producer >= here) {
        throw std::invalid_argument("a producer must come before its reader");
      }
    }
    const auto& [ranks, chips, nodes] = group;
    nodes_.push_back({view,
                      producers.data(),
                      is_output,
                      is_fused,
                      named<Collective>(kCollectiveNames, collective, "collective"),
                      {ranks, chips, nodes}});
  }
}

}  // namespace torch_trainium::timeline
