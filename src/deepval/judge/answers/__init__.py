"""What should I run? One answer per budget: run, do not run, or not settled.

    blind       what the best choice gains that does not look at the inputs
    leads       every allocator against the best blind choice at its own spend
    answer      the candidate, the verdict, the best fixed mode; help without a score
    sentences   answers -> words; no other module says `run`
    told        all of it as records of a result

Nothing on the path from a table to its rows imports these modules but for the leads,
which are columns of the rows.
"""
