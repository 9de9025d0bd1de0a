"""What a learner is to a comparison; figures draw each role in its own way."""

from __future__ import annotations

from typing import Literal

Role = Literal["model", "ablation", "baseline", "theory", "ceiling", "quoted"]
