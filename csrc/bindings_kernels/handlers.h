// Handlers of XLA's custom calls that run kernels of PyTorch.
#pragma once

namespace torch_trainium::kernels {

// Batched product of matrices.
void* dot_handler();

// Convolution and its gradients by the image and by the kernel.
void* convolution_handler();
void* convolution_input_gradient_handler();
void* convolution_kernel_gradient_handler();

// Running sums and products.
void* cumulative_sum_handler();
void* cumulative_product_handler();

// The largest elements of each row, in order.
void* top_k_handler();

}  // namespace torch_trainium::kernels
