"""Exceptions and warnings of this package.

Running out of device memory is `torch.OutOfMemoryError` and a failing device is
`torch.AcceleratorError`: programs written for other accelerators already catch those.
"""


class TrainiumError(Exception):
    """Base class of every exception that only this package raises."""


class UnsupportedTorchError(TrainiumError, ImportError):
    """The installed PyTorch, or the one the extension was built for, is not supported."""


class BackendConflictError(TrainiumError, ImportError):
    """Another backend holds the one place PyTorch has for an external device."""


class ProcessSharingError(TrainiumError, RuntimeError):
    """A neuron tensor was about to be shared with another process."""


class UnsupportedOnNeuronError(TrainiumError, NotImplementedError):
    """The feature exists in PyTorch and cannot exist on this device."""


class ConfigurationWarning(UserWarning):
    """An environment variable that looks like ours is not, or a setting has a limit."""


class StreamRaceError(TrainiumError, RuntimeError):
    """Nothing orders two uses of the same memory: of two streams, or of a stream and the host."""


class StreamRaceWarning(UserWarning):
    """The same, where the sanitizer is to warn."""


class CompilerUnavailableError(TrainiumError, ImportError):
    """Programs cannot be compiled: the compiler is not installed, or in another version."""


class LoweringError(TrainiumError, NotImplementedError):
    """An operator, or a use of it, that cannot be expressed as a program of the device."""


class GraphCompileError(TrainiumError, RuntimeError):
    """A graph of torch.compile that cannot be compiled; the message names operator and line."""


class BucketError(TrainiumError, ValueError):
    """A compiled graph got a size that is none of the buckets in its options."""


class RecompileWarning(UserWarning):
    """A graph is compiled again and again, for shapes that go on changing."""


class InputCopyWarning(UserWarning):
    """A compiled graph copies a CPU tensor to the device each time that it runs."""


class FallbackError(LoweringError):
    """An operator would run on the CPU, and the fallback policy is "error"."""


class GraphFallbackError(GraphCompileError, FallbackError):
    """A graph of torch.compile has an operator that would run on the CPU; both of these errors."""


class FallbackWarning(UserWarning):
    """An operator runs on the CPU because the device has no program for it."""


class GraphCutWarning(UserWarning):
    """An operator runs by itself between the programs of a graph, on the device."""
