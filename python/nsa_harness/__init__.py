"""A verdict on an attention kernel of your own: nsa_harness.validate(fn, spec); docs/your-kernel.md tells how. Two lines that let a
training run of your own be judged: nsa_harness.train.watch(model, optimizer); docs/your-run.md tells how."""

from nsa_harness import train
from nsa_harness.spec import Spec, SpecError
from nsa_harness.validate import Case, Finding, Verdict, validate

__all__ = ["Case", "Finding", "Spec", "SpecError", "Verdict", "train", "validate"]
