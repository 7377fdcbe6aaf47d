"""The predictions of `tfhet.plan` against simulated clusters."""
