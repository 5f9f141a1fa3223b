// Operators and compiled graphs that own what the cost model's records point to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "timeline/cost_model.h"

namespace torch_trainium::timeline {

// sizes, element, bytes of an element, dense, permuted, written, on the host
using OperandRecord = std::tuple<std::vector<int64_t>, std::string, int, bool, bool, bool, bool>;

class CallRecord {
 public:
  // Throws std::invalid_argument for an unknown name.
  CallRecord(const std::string& cost_class, const std::vector<OperandRecord>& operands,
             int64_t result_bytes);
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  // Valid while the record lives.
  OperatorCall view() const;

 private:
  CostClass cost_class_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<Operand> operands_;
  int64_t result_bytes_;
};

// call, producers, is an output, is fused, collective and (ranks, chips, nodes)
using NodeRecord = std::tuple<std::shared_ptr<CallRecord>, std::vector<int32_t>, bool, bool,
                              std::string, std::tuple<int32_t, int32_t, int32_t>>;

class GraphRecord {
 public:
  // Throws std::invalid_argument where a producer does not come before its reader.
  explicit GraphRecord(std::vector<NodeRecord> records);
  GraphRecord(const GraphRecord&) = delete;
  GraphRecord& operator=(const GraphRecord&) = delete;

  const ProgramNode* nodes() const { return nodes_.data(); }
  int count() const { return static_cast<int>(nodes_.size()); }
  // Of this process's graphs, no other has it.
  uint64_t id() const { return id_; }

 private:
  std::vector<NodeRecord> records_;
  std::vector<ProgramNode> nodes_;
  uint64_t id_;
};

}  // namespace torch_trainium::timeline
