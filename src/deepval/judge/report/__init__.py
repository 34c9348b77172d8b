"""Result -> text for people and programs."""
