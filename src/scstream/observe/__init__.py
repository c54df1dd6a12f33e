"""What is seen of a model that runs: metrics, spans, alarms. Nothing here changes a label."""
