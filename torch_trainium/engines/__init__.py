"""What runs programs: engines, which compile StableHLO and run it on raw addresses.

engine       the interface every engine has
xla_cpu      programs on the host, by XLA's CPU compiler
"""
