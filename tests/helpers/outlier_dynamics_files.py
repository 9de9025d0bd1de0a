"""Experiments of the kinds `outlier_training`, `outlier_gates` and `outlier_attack` at tiny sizes, as YAML."""

from pathlib import Path

SMALL = "prompts: {ambient_dim: 8, relevant: 3, irrelevant: 2, outliers: 2}"
TRAINING = "training: {steps: 40, batch_size: 16, num_examples: 6, learning_rate: 0.02, log_every: 10}"
FILES = {
    "attention": f"""
kind: outlier_training
config:
  {SMALL}
  learners: {{mamba: {{{TRAINING}}}, deep: {{kind: softmax, depth: 2, role: ablation, {TRAINING}}}}}
  probes: 2
  probe_prompts: 16
""",
    "convergence": f"""
kind: outlier_training
config:
  {SMALL}
  learners:
    linear: {{kind: linear, start: 0.05, training: {{steps: 60, batch_size: 16, learning_rate: 0.02, log_every: 2}}}}
  levels: [0.6, 0.00001]
  vary: {{num_examples: [5, 10], relevant: [2, 4]}}
""",
    "gates": f"""
kind: outlier_gates
config:
  {SMALL}
  learners: {{mamba: {{{TRAINING}}}, deep: {{depth: 2, {TRAINING}}}}}
  test: {{num_examples: 6, outlier_fraction: 0.3, coefficients: [[0.8, 0.2]]}}
  outlier_sizes: [2.0, 5.0]
  num_prompts: 24
  fitted: 3
""",
    "attack": f"""
kind: outlier_attack
config:
  {SMALL}
  learners: {{mamba: {{{TRAINING}}}, linear: {{kind: linear, {TRAINING}}}}}
  test: {{num_examples: 5, outlier_fraction: 0.0, coefficients: null}}
  sizes: [1.0, 3.0]
  prompts_per_task: 2
  steps: 6
  restarts: 2
""",
}


def write_files(folder: Path) -> Path:
    """One file an experiment."""
    for name, content in FILES.items():
        (folder / f"{name}.yaml").write_text(f"title: Tiny\nquestion: Tiny?\n{content}")
    return folder
