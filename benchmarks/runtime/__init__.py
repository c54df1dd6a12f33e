"""What the runtime costs, and what it holds: throughput, stalls, many models."""
