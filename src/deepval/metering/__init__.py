"""Code that runs -> what it costs per input: times, energy, and cards that a costs file takes."""
