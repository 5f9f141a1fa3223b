"""Operators as compiled programs on the device."""

import pytest
import torch

from tests.python_process import run_python
from torch_trainium import eager
from torch_trainium.engines.programs import program_cache

DEVICE = "neuron"
