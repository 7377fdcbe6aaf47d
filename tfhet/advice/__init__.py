"""Advice from a profile, a plan, a run or a training job: whether it waits for its input, and what to do.

    from tfhet import advice
    from tfhet.record import RunSummary

    diagnosis = advice.of_run(RunSummary(wait_pct=42.0))
    print(diagnosis.state, diagnosis.verdict.kind)
    print(advice.paragraph(diagnosis))

`of_pipeline`, `of_plan`, `of_run` and `of_training_job` make findings; `sentence` and `paragraph` put them in words.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
