// Which operators run natively on the emulated chip: the table that
// `python -m torch_trainium.lowering --write` makes of the lowerings, what checks found of their
// programs, and what the chip's compiler takes.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torch_trainium {

// A set of dtypes: bit n stands for the ScalarType n.
using Dtypes = uint64_t;
static_assert(static_cast<size_t>(c10::ScalarType::NumOptions) <= 64);

constexpr Dtypes dtype_bit(c10::ScalarType dtype) {
  return Dtypes{1} << static_cast<unsigned>(dtype);
}

// What an argument's value makes of an operator, where the other values may be native.
struct UseClassification {
  std::string value;  // "True", "sum"
  Dtypes fallback;
  std::string reason;
};

struct Classification {
  // Dtypes of the first tensor for which the operator runs on the CPU, whatever it is used for.
  Dtypes fallback = ~Dtypes{0};
  std::string reason = "it has no lowering that a check has proven";
  std::string deciding_argument;  // "" where the use of the operator changes nothing
  std::vector<UseClassification> uses;
};

// Where the table is, which is read at the first question, and the chip it is read for.
void set_classification(std::string path, std::string chip);
const std::string& classified_chip();

// Of an overload such as "aten::add.Tensor". Operators that the table does not know run on the CPU.
Classification classification_of(std::string_view qualified_name);

// Dtypes that do not exist on the chip, and why one does not.
Dtypes missing_dtypes();
std::string reason_of_missing(c10::ScalarType dtype);

}  // namespace torch_trainium
