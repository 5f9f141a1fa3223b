#include "core/operator_names.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace torch_trainium {
namespace {

struct Names {
  std::mutex mutex;
  std::deque<std::string> by_id;  // stable addresses
  std::unordered_map<std::string_view, uint32_t> ids;
};

Names& names() {
  static auto* instance = new Names;  // kernels may run after static destructors
  return *instance;
}

}  // namespace

uint32_t operator_id(std::string_view qualified_name) {
  const std::lock_guard lock(names().mutex);
  if (const auto known = names().ids.find(qualified_name); known != names().ids.end()) {
    return known->second;
  }
  const auto id = static_cast<uint32_t>(names().by_id.size());
  names().ids.emplace(names().by_id.emplace_back(qualified_name), id);
  return id;
}

const std::string& operator_name(uint32_t id) {
  const std::lock_guard lock(names().mutex);
  return names().by_id.at(id);
}

}  // namespace torch_trainium
