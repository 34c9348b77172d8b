"""Logs of models as their owners write them -> a values file and scores files.

`files` reads a log into columns without its texts, `owners` knows the formats of other
programs and `public` the tables of public benchmarks, `roles` finds out what each
column is, `assembly` makes one row per input of it, `importing` does all of that.
"""
