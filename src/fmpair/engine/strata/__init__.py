"""The strata plan and all that engines share: sampling tables, regularisation, accumulators."""
