"""What the service costs above the model, and whether it stays the same for long."""
