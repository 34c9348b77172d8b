"""Running code -> its cost per input: times, energy, and cards for a costs file."""
