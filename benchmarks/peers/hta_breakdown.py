"""Load a trace with HolisticTraceAnalysis and print its breakdown (in the peers' Python)."""

import sys

from hta.trace_analysis import TraceAnalysis

if __name__ == "__main__":
    analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
    print(analysis.get_temporal_breakdown(visualize=False).to_string())
