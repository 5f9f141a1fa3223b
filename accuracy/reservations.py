"""Which predictions are reported without a claim, by rules: a condition and the reason."""

from collections.abc import Callable

from accuracy.models.configs import DecoderConfig, find_decoder
from accuracy.prediction import Prediction


def _config(prediction: Prediction) -> DecoderConfig | None:
    row = prediction.row
    return find_decoder(row.workload) or find_decoder(row.word("model"))


def _has_recurrence(prediction: Prediction) -> bool:
    config = _config(prediction)
    return config is not None and config.recurrence is not None


def _sends_prompts_through_experts(prediction: Prediction) -> bool:
    config, row = _config(prediction), prediction.row
    waits_for_prompt = row.metric == "output_tokens_per_s" and "concurrency" in row.params
    reads_prompt = prediction.family == "serving prefill" or waits_for_prompt
    return reads_prompt and config is not None and config.experts is not None


RULES: tuple[tuple[str, Callable[[Prediction], bool]], ...] = (
    (
        "training: one LoRA configuration on one chip type, and two small classifiers whose "
        "epochs wait for the host's data loader",
        lambda prediction: prediction.family == "training",
    ),
    (
        "recurrent layers (DeltaNet, Mamba): published ports of one model differ 2.5-fold "
        "(Qwen3.5-27B: 53 ms a token on 4 ranks, 21.6 ms on 8) with kernels that are not published",
        _has_recurrence,
    ),
    (
        "prompts through experts: sources do not say which of the library's kernels runs the "
        "blocks, nor how large these are; by the published totals one takes 0.05 to 0.75 ms",
        _sends_prompts_through_experts,
    ),
)


def reservation(prediction: Prediction) -> str | None:
    """Why nothing is claimed about a prediction; None if it is claimed."""
    return next((why for why, applies in RULES if applies(prediction)), None)
