"""A model, a batch, a loss and an optimizer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Field(nn.Module):
    """One field of what a library's model returns."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, **inputs: Tensor) -> Tensor:
        return getattr(self.model(**inputs), self.name)


def classification_loss(scores: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of (..., classes) scores with (...) targets."""
    return F.cross_entropy(scores.flatten(0, -2), target.flatten())


@dataclass(frozen=True)
class Workload:
    """What is run forward, or trained. The model returns one tensor.

    Dropout is zero in all of them, so that devices with other random numbers can be compared.
    """

    model: nn.Module
    inputs: dict[str, Tensor]
    target: Tensor
    loss: Callable[[Tensor, Tensor], Tensor] = classification_loss

    def to(self, device: str) -> "Workload":
        """The same workload there; the model is moved, not copied."""
        return replace(
            self,
            model=self.model.to(device),
            inputs={name: value.to(device) for name, value in self.inputs.items()},
            target=self.target.to(device),
        )

    def inference(self, **compile_options: Any) -> Callable[[], Tensor]:
        """A function that returns the model's output; compiled, if there are options."""
        model = self.model.eval()
        run = torch.compile(model, **compile_options) if compile_options else model

        def infer() -> Tensor:
            with torch.no_grad():
                return run(**self.inputs)

        return infer

    def training(self, **compile_options: Any) -> Callable[[], Tensor]:
        """A function that trains one step with AdamW and returns the loss before it.

        With options, what computes the loss is compiled, and with it the backward pass. Gradients
        are kept until the next step.
        """
        model, inputs, target = self.model.train(), self.inputs, self.target
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

        def model_loss() -> Tensor:
            return self.loss(model(**inputs), target)

        run = torch.compile(model_loss, **compile_options) if compile_options else model_loss

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = run()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step
