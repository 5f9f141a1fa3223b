"""Running sums, products, extremes, and differences."""
