"""General rules from the words and numbers of a row to the workload that it timed."""
