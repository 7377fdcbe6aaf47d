"""Scripts of `tfhet bench launch`: the flow of AWS's example, written afresh, and tfhet's beside it.

Each is run as a file: this folder is the `source_dir` of the jobs that are measured.
"""
