"""The steps of one rank: where their time goes, in the built-in trainer and in any script.

from tfhet import steps

with steps.step() as step:      # optional, in a script that reads by tfhet.distribute: where a step begins and ends
    step.loss = train(batch)
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
