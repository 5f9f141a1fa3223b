"""Layers with kernels of their own for PrivateUse1: convolution, attention, recurrent, pooling."""

import copy

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

F = torch.nn.functional


def _same_training_step(module: torch.nn.Module, device: str, *inputs: torch.Tensor) -> None:
    """Output, input gradients, parameter gradients and buffers agree with the CPU."""
    twin = copy.deepcopy(module).to(device)
    results = []
    for model, target in ((module, "cpu"), (twin, device)):
        arguments = [value.detach().to(target) for value in inputs]
        for argument in arguments:
            argument.requires_grad_(argument.is_floating_point())
        output = model(*arguments)
        output = output[0] if isinstance(output, tuple) else output
        output.sum().backward()
        tensors = [output, *(a.grad for a in arguments if a.requires_grad)]
        tensors += [p.grad for p in model.parameters()] + list(model.buffers())
        results.append([None if t is None else t.detach().cpu() for t in tensors])
    for left, right in zip(*results, strict=True):
        if left is not None or right is not None:
            torch.testing.assert_close(left, right)


def test_convolutions(device: str) -> None:
    for module, shape in (
        (torch.nn.Conv1d(4, 6, 3, padding=1, groups=2), (2, 4, 8)),
        (torch.nn.Conv2d(3, 4, 3, stride=2, dilation=2), (2, 3, 12, 12)),
        (torch.nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
        (torch.nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (2, 3, 5, 5)),
        (torch.nn.Conv2d(4, 4, 3, padding="same", padding_mode="reflect"), (1, 4, 6, 6)),
    ):
        _same_training_step(module, device, torch.randn(shape))


def test_channels_last_convolution(device: str) -> None:
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    module = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    _same_training_step(module, device, image)
    output = module.to(device)(image.to(device))
    assert output.is_contiguous(memory_format=torch.channels_last)


def test_recurrent_layers(device: str) -> None:
    sequence = torch.randn(5, 2, 3)
    for module in (
        torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True),
        torch.nn.GRU(3, 4, batch_first=True),
        torch.nn.RNN(3, 4),
        torch.nn.LSTM(3, 4, proj_size=2),
        torch.nn.LSTMCell(3, 4),
        torch.nn.GRUCell(3, 4),
    ):
        is_cell = isinstance(module, torch.nn.RNNCellBase)
        _same_training_step(module, device, sequence[0] if is_cell else sequence)


def test_packed_sequences(device: str) -> None:
    torch.manual_seed(0)
    module = torch.nn.LSTM(3, 4)
    padded, lengths = torch.randn(5, 2, 3), torch.tensor([5, 3])
    outputs = []
    for target in ("cpu", device):
        packed = torch.nn.utils.rnn.pack_padded_sequence(padded.to(target), lengths)
        output, _ = module.to(target)(packed)
        outputs.append(torch.nn.utils.rnn.pad_packed_sequence(output)[0].detach().cpu())
    torch.testing.assert_close(*outputs)


def test_attention_with_every_kind_of_mask(device: str) -> None:
    query, key, value = (torch.randn(2, 4, 6, 8) for _ in range(3))
    mask = torch.rand(2, 1, 6, 6) > 0.3
    mask[..., 0] = True
    for options in (
        {},
        {"is_causal": True},
        {"attn_mask": mask},
        {"attn_mask": torch.randn(6, 6)},
        {"scale": 0.3},
    ):
        results = []
        for target in ("cpu", device):
            operands = [t.detach().to(target).requires_grad_() for t in (query, key, value)]
            moved = {
                name: option.to(target) if isinstance(option, torch.Tensor) else option
                for name, option in options.items()
            }
            output = F.scaled_dot_product_attention(*operands, **moved)
            output.square().sum().backward()
            results.append([output.detach().cpu(), *(t.grad.cpu() for t in operands)])
        for left, right in zip(*results, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_attention_of_strided_operands(device: str) -> None:
    packed = torch.randn(2, 6, 3, 4, 8)
    results = []
    for target in ("cpu", device):
        query, key, value = packed.to(target).unbind(2)
        operands = [t.transpose(1, 2) for t in (query, key, value)]
        results.append(F.scaled_dot_product_attention(*operands).cpu())
    torch.testing.assert_close(*results)


def test_attention_with_fewer_key_heads(device: str) -> None:
    query, key = torch.randn(1, 8, 5, 4), torch.randn(1, 2, 5, 4)
    results = [
        F.scaled_dot_product_attention(
            query.to(target), key.to(target), key.to(target), enable_gqa=True
        ).cpu()
        for target in ("cpu", device)
    ]
    torch.testing.assert_close(*results)


def test_attention_backends_can_be_chosen(device: str) -> None:
    query = torch.randn(1, 2, 4, 8, device=device)
    expected = F.scaled_dot_product_attention(query, query, query)
    with sdpa_kernel(SDPBackend.MATH):
        torch.testing.assert_close(F.scaled_dot_product_attention(query, query, query), expected)


def test_transformer_layers(device: str) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    _same_training_step(layer, device, torch.randn(2, 5, 8))
    layer.eval()
    values = torch.randn(2, 5, 8)
    with torch.no_grad():
        expected = layer(values)
        actual = layer.to(device)(values.to(device))
    torch.testing.assert_close(actual.cpu(), expected)
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    twin = copy.deepcopy(attention).to(device)
    torch.testing.assert_close(
        twin(*[values.to(device)] * 3)[0].cpu(), attention(values, values, values)[0]
    )


def test_normalization_updates_its_statistics(device: str) -> None:
    image = torch.randn(4, 6, 5, 5)
    for module in (
        torch.nn.BatchNorm2d(6),
        torch.nn.GroupNorm(2, 6),
        torch.nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
        torch.nn.LayerNorm([6, 5, 5]),
        torch.nn.RMSNorm(5),
    ):
        _same_training_step(module, device, image)


def test_pooling_embedding_and_losses(device: str) -> None:
    image = torch.randn(2, 3, 8, 8)
    for module in (
        torch.nn.MaxPool2d(2),
        torch.nn.AvgPool2d(3, 2, 1),
        torch.nn.AdaptiveAvgPool2d(3),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.PixelShuffle(1),
    ):
        _same_training_step(module, device, image)
    _same_training_step(torch.nn.Embedding(10, 4), device, torch.tensor([[1, 2], [9, 1]]))
    _same_training_step(torch.nn.EmbeddingBag(10, 4), device, torch.tensor([[1, 2], [9, 1]]))


def test_training_on_the_device_follows_the_cpu(device: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    data, labels = torch.randn(32, 8), torch.randint(0, 4, (32,))
    losses = []
    for target in ("cpu", device):
        net = copy.deepcopy(model).to(target)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        track = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(data.to(target)), labels.to(target))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            track.append(loss.item())
        losses.append(track)
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_data_parallel_over_one_device(device: str) -> None:
    model = torch.nn.DataParallel(torch.nn.Linear(3, 2).to(device), device_ids=[0])
    assert model(torch.ones(4, 3, device=device)).shape == (4, 2)
