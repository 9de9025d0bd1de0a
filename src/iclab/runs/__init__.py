"""Running experiments: run folders, executors, resume and results.

`iclab.runs.run.run_experiment` executes, `iclab.runs.results.load_results` reads what a folder holds.
"""
