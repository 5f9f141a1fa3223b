// Sparse and nested tensors: their alias and their adoption go part by part.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_trainium {

class HostCall;

at::Tensor alias_composite(HostCall& call, const at::Tensor& tensor);
at::Tensor adopt_composite(HostCall& call, const at::Tensor& result);
void write_back_composite(HostCall& call, const at::Tensor& tensor, const at::Tensor& alias);

}  // namespace torch_trainium
