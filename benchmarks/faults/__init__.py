"""Long runs of the fault tests, and the page of what they reached."""
