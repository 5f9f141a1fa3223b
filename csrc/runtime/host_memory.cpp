#include "runtime/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace torch_trainium::runtime {
namespace {

std::optional<size_t> read_number(const std::string& path) {
  std::ifstream file(path);
  size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or the word "max"
}

std::optional<size_t> mem_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  size_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

// Path of the process's cgroup (v2) under /sys/fs/cgroup, without trailing slash.
std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) == 0) {
      const std::string path = line.substr(3);
      return path == "/" ? "/sys/fs/cgroup" : "/sys/fs/cgroup" + path;
    }
  }
  return {};
}

}  // namespace

size_t available_host_bytes() {
  static const std::string cgroup = own_cgroup();
  size_t available = mem_available().value_or(SIZE_MAX);
  for (std::string path = cgroup; path.size() >= std::string("/sys/fs/cgroup").size();
       path.resize(path.rfind('/'))) {
    const auto limit = read_number(path + "/memory.max");
    const auto used = read_number(path + "/memory.current");
    if (limit && used) available = std::min(available, *limit > *used ? *limit - *used : 0);
  }
  return available;
}

}  // namespace torch_trainium::runtime
