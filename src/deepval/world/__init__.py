"""What is there: objects, what the vehicle knows of a unit (Scene), and the reference it is judged by (Truth)."""
