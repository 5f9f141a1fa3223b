"""Choosing the emulated machine from the program."""

import warnings
from dataclasses import asdict

from torch_trainium import _C, config
from torch_trainium.errors import ConfigurationWarning
from torch_trainium.hardware import ConfigurationError
from torch_trainium.hardware.environment import machine_of, non_empty
from torch_trainium.neuron.cpu_fallbacks import classify_for

# The variable that each argument of set_instance stands in for.
VARIABLES = {
    "name": "TORCH_TRAINIUM_INSTANCE",
    "logical_core_size": "NEURON_LOGICAL_NC_CONFIG",
    "visible_cores": "NEURON_RT_VISIBLE_CORES",
}


def set_instance(
    name: str, *, logical_core_size: int | None = None, visible_cores: str | None = None
) -> None:
    """Emulate the instance or UltraServer `name`; call it before a device is first used.

    Device count, memory, names and properties follow. On an UltraServer the process runs on
    one of its servers. What is not given keeps what the environment says.

    Args:
        name: such as "trn2.48xlarge" or "trn3-gen2-ultraserver"; TORCH_TRAINIUM_INSTANCE.
        logical_core_size: physical cores of a device, 1 or 2; NEURON_LOGICAL_NC_CONFIG.
        visible_cores: such as "0-3" or "0,2"; NEURON_RT_VISIBLE_CORES.

    Raises:
        ConfigurationError: no such machine; the message has the allowed values.
        RuntimeError: a device has been used already.

    """
    arguments: dict[str, str | int | None] = {
        "name": name,
        "logical_core_size": logical_core_size,
        "visible_cores": visible_cores,
    }
    chosen = {VARIABLES[key]: str(value) for key, value in arguments.items() if value is not None}
    environ = dict(config.environment())
    if logical_core_size is not None:
        environ.pop("NEURON_RT_VIRTUAL_CORE_SIZE", None)
    try:
        machine = machine_of({**non_empty(environ), **chosen})
    except ConfigurationError as error:
        names = {variable: key for key, variable in VARIABLES.items() if variable in chosen}
        raise error.renamed(names.get(error.variable, error.variable)) from None
    _C.configure_machine(asdict(machine))
    classify_for(machine.chip)
    settings = config.read(environ, chosen)
    _C.set_unavailable_reason(settings.error)
    config.replace_current(settings)
    for sentence in config.hidden_cores(settings):
        warnings.warn(sentence, ConfigurationWarning, stacklevel=2)
