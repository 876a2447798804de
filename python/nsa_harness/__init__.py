"""A verdict on an attention kernel of your own: nsa_harness.validate(fn, spec). docs/your-kernel.md tells how."""

from nsa_harness.spec import Spec, SpecError
from nsa_harness.validate import Case, Finding, Verdict, validate

__all__ = ["Case", "Finding", "Spec", "SpecError", "Verdict", "validate"]
