// Sparse and nested tensors are made of dense parts and a little metadata. Their
// alias and their adoption go part by part.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace torch_trainium {

// COO: indices, values. Compressed: compressed indices, plain indices, values.
// Nested: the buffer.
using CompositeParts = c10::SmallVector<at::Tensor, 3>;

CompositeParts parts_of(const at::Tensor& tensor);

// As parts_of, but leaves `tensor` without them, so that each part may have one
// owner. Only its metadata may be read afterwards.
CompositeParts take_parts(const at::Tensor& tensor);

// A tensor of the metadata of `like` out of other parts, on the device of those.
at::Tensor assemble(const at::Tensor& like, const CompositeParts& parts);

// Makes `target` what assemble would have returned.
void reassemble(const at::Tensor& target, const at::Tensor& like, const CompositeParts& parts);

}  // namespace torch_trainium
