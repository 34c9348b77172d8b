"""What should I run? One answer per budget: run, do not run, or not settled.

    blind       what the best choice gains that does not look at the inputs
    scale       sums of loss -> points of accuracy, shares, losses, with intervals
    leads       every allocator against the best blind choice at its own spend
    answer      the candidate, the verdict, the best fixed mode
    helps       the answer without a score: does the dearer mode help, and where not
    sentences   answers -> words; no other module says `run`

Nothing on the path from a table to its rows imports these modules but for the leads,
which are columns of the rows.
"""
