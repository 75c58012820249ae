"""The rules of the optimizer, one module each: functions from a planned statement to another, or None."""
