"""Input and output: rows and tables, parameters of the user, and model files."""
