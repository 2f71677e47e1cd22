"""How good a space is: arrays in, numbers out."""
