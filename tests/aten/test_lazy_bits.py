"""Conjugate and negative bits that a kernel sets on a tensor it writes."""

import torch


def test_a_result_that_the_kernel_conjugates_lazily_is_read_conjugated():
    matrix = torch.randn(3, 3, dtype=torch.complex64)
    right = torch.randn(4, 3, dtype=torch.complex64)
    factors, pivots = torch.linalg.lu_factor(matrix)
    expected = torch.linalg.lu_solve(factors, pivots, right, left=False)
    out = torch.empty(4, 3, dtype=torch.complex64, device="neuron").mT.contiguous().mT
    operands = [tensor.to("neuron") for tensor in (factors, pivots, right)]
    result = torch.linalg.lu_solve(*operands, left=False, out=out)
    assert result is out
    torch.testing.assert_close(out.cpu(), expected)


def test_an_out_tensor_that_is_made_anew_takes_the_bit_over():
    matrix = torch.randn(3, 3, dtype=torch.complex64)
    factors, pivots = torch.linalg.lu_factor(matrix)
    right = torch.randn(4, 3, dtype=torch.complex64)
    on_cpu = torch.empty(0, dtype=torch.complex64)
    torch.linalg.lu_solve(factors, pivots, right, left=False, out=on_cpu)
    on_device = torch.empty(0, dtype=torch.complex64, device="neuron")
    operands = [tensor.to("neuron") for tensor in (factors, pivots, right)]
    torch.linalg.lu_solve(*operands, left=False, out=on_device)
    assert on_device.is_conj() == on_cpu.is_conj()
    assert on_device.stride() == on_cpu.stride()
    torch.testing.assert_close(on_device.cpu(), on_cpu)
