"""What the engine costs, what it would do on machines that are not here, and what it survives."""
