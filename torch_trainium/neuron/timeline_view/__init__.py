"""Views of the virtual timeline: sums, a trace for Perfetto, a report as one HTML page.

- `records`: what the timeline hands over
- `elapsed`: each instant of a core given to one unit of work
- `totals`: sums by operator, module, line and engine; memory over time
- `roofline`: operators against the core's peaks
- `verdict`: what limits the program, in words
- `chrome_trace`: the trace
- `page`: the report, made of `sections`, plots, `markup` and `units`

Nothing is imported here: `import torch` loads `records` alone, the rest waits for its first use.
"""
